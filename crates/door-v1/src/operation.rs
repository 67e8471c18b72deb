//! One row of the table that makes both the router and the document.

use std::sync::Arc;

use axum::handler::Handler;
use axum::routing::{MethodFilter, MethodRouter, on};
use http::{Method, StatusCode};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::door::Shared;
use crate::error::Code;
use crate::openapi::schemas::Schemas;

/// Makes the schema of a body, with what it refers to.
pub(crate) type SchemaOf = fn(&mut Schemas) -> Value;

/// A route with its words.
#[derive(Debug)]
pub(crate) struct Operation {
    pub(crate) method: Method,
    pub(crate) path: &'static str,
    pub(crate) route: MethodRouter<Shared>,
    /// The name that clients generate methods from.
    pub(crate) id: &'static str,
    pub(crate) tag: Tag,
    pub(crate) summary: &'static str,
    pub(crate) description: &'static str,
    pub(crate) parameters: Vec<Parameter>,
    pub(crate) request: Option<Body>,
    pub(crate) replies: Vec<Reply>,
    /// What it refuses beyond the gate and its body.
    pub(crate) refusals: Vec<Code>,
    /// Whether it answers without a token.
    pub(crate) is_open: bool,
}

/// What an operation is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tag {
    /// The server itself.
    Server,
    /// Sessions.
    Sessions,
    /// Prompts and what people are asked.
    Prompts,
    /// Event streams.
    Events,
    /// What happened, and going back.
    History,
}

impl Tag {
    pub(crate) const ALL: [Tag; 5] =
        [Tag::Server, Tag::Sessions, Tag::Prompts, Tag::Events, Tag::History];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Tag::Server => "server",
            Tag::Sessions => "sessions",
            Tag::Prompts => "prompts",
            Tag::Events => "events",
            Tag::History => "history",
        }
    }

    pub(crate) fn description(self) -> &'static str {
        match self {
            Tag::Server => "The server itself.",
            Tag::Sessions => "Conversations: created, listed, changed, closed.",
            Tag::Prompts => "Saying something, and answering what is asked.",
            Tag::Events => "Streams of server-sent events.",
            Tag::History => "What happened, and going back.",
        }
    }
}

/// A parameter in the query or in a header.
#[derive(Debug)]
pub(crate) struct Parameter {
    pub(crate) name: &'static str,
    pub(crate) is_header: bool,
    pub(crate) description: &'static str,
    pub(crate) schema: Value,
}

/// A request's body.
#[derive(Debug)]
pub(crate) struct Body {
    pub(crate) schema: SchemaOf,
    pub(crate) is_required: bool,
    pub(crate) bytes_max: usize,
    pub(crate) examples: Vec<(&'static str, Value)>,
}

/// An answer that is no refusal.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: StatusCode,
    pub(crate) description: &'static str,
    /// Media type and schema; none without a body.
    pub(crate) content: Option<(&'static str, SchemaOf)>,
    pub(crate) example: Option<Value>,
}

/// The media type of nearly everything.
const JSON: &str = "application/json";

impl Operation {
    pub(crate) fn get<H, T>(path: &'static str, handler: H) -> Self
    where
        H: Handler<T, Shared>,
        T: 'static,
    {
        Self::new(Method::GET, path, on(MethodFilter::GET, handler))
    }

    pub(crate) fn post<H, T>(path: &'static str, handler: H) -> Self
    where
        H: Handler<T, Shared>,
        T: 'static,
    {
        Self::new(Method::POST, path, on(MethodFilter::POST, handler))
    }

    pub(crate) fn delete<H, T>(path: &'static str, handler: H) -> Self
    where
        H: Handler<T, Shared>,
        T: 'static,
    {
        Self::new(Method::DELETE, path, on(MethodFilter::DELETE, handler))
    }

    fn new(method: Method, path: &'static str, route: MethodRouter<Shared>) -> Self {
        Self {
            method,
            path,
            route,
            id: "",
            tag: Tag::Server,
            summary: "",
            description: "",
            parameters: Vec::new(),
            request: None,
            replies: Vec::new(),
            refusals: Vec::new(),
            is_open: false,
        }
    }

    /// Gives it a name, a place and one line about it.
    pub(crate) fn named(mut self, id: &'static str, tag: Tag, summary: &'static str) -> Self {
        (self.id, self.tag, self.summary) = (id, tag, summary);
        self
    }

    /// Returns the names of the parameters that its query may have.
    pub(crate) fn queries(&self) -> Arc<[&'static str]> {
        self.parameters.iter().filter(|it| !it.is_header).map(|it| it.name).collect()
    }

    /// Says more, in Markdown.
    pub(crate) fn says(mut self, description: &'static str) -> Self {
        self.description = description;
        self
    }

    /// Answers without a token, too.
    pub(crate) fn open(mut self) -> Self {
        self.is_open = true;
        self
    }

    /// Takes a parameter in the query.
    pub(crate) fn query(
        mut self,
        name: &'static str,
        schema: Value,
        description: &'static str,
    ) -> Self {
        self.parameters.push(Parameter { name, is_header: false, description, schema });
        self
    }

    /// Takes a header.
    pub(crate) fn header(
        mut self,
        name: &'static str,
        schema: Value,
        description: &'static str,
    ) -> Self {
        self.parameters.push(Parameter { name, is_header: true, description, schema });
        self
    }

    /// Takes a JSON body.
    pub(crate) fn takes<T: DeserializeOwned + JsonSchema>(
        mut self,
        bytes_max: usize,
        examples: Vec<(&'static str, Value)>,
    ) -> Self {
        let schema: SchemaOf = |schemas| schemas.of_request::<T>();
        self.request = Some(Body { schema, is_required: true, bytes_max, examples });
        self
    }

    /// Its body may be left out.
    pub(crate) fn or_nothing(mut self) -> Self {
        if let Some(request) = &mut self.request {
            request.is_required = false;
        }
        self
    }

    /// Answers with JSON.
    pub(crate) fn answers<T: JsonSchema>(
        mut self,
        status: StatusCode,
        description: &'static str,
        example: Value,
    ) -> Self {
        let schema: SchemaOf = |schemas| schemas.of_reply::<T>();
        let content = Some((JSON, schema));
        self.replies.push(Reply { status, description, content, example: Some(example) });
        self
    }

    /// Answers with something else than JSON.
    pub(crate) fn sends(
        mut self,
        media_type: &'static str,
        schema: SchemaOf,
        description: &'static str,
    ) -> Self {
        let content = Some((media_type, schema));
        let status = StatusCode::OK;
        self.replies.push(Reply { status, description, content, example: None });
        self
    }

    /// Changes the status of what was said last, 200 by default.
    pub(crate) fn with_status(mut self, status: StatusCode) -> Self {
        if let Some(reply) = self.replies.last_mut() {
            reply.status = status;
        }
        self
    }

    /// Answers 204 without a body.
    pub(crate) fn answers_nothing(mut self, description: &'static str) -> Self {
        let status = StatusCode::NO_CONTENT;
        self.replies.push(Reply { status, description, content: None, example: None });
        self
    }

    /// Refuses with these codes, beyond those of the gate and of its body.
    pub(crate) fn refuses(mut self, codes: &[Code]) -> Self {
        self.refusals.extend(codes);
        self
    }

    /// Works on a session that is open here.
    pub(crate) fn of_session(self) -> Self {
        self.refuses(&[Code::SessionNotFound, Code::OwnedElsewhere])
    }
}
