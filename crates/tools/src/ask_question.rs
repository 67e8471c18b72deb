//! `ask_question`: a person decides between options.

use async_trait::async_trait;
use driver_api::{Asks, CallFacts, Tool, ToolContext, ToolError, ToolOutcome, ToolSpec, Workspace};
use protocol::Effect;
use protocol::event::QuestionOption;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::{arguments, words};

/// How many options a question has: one is no choice, and more than eight nobody takes in.
const OPTIONS_MIN: usize = 2;
const OPTIONS_MAX: usize = 8;

/// Characters of the question: a screen of a terminal.
const QUESTION_CHARS_MAX: usize = 2_000;

/// Characters of an option's label, and of its id: a line.
const LABEL_CHARS_MAX: usize = 200;

/// Characters of an option's description: some lines.
const DESCRIPTION_CHARS_MAX: usize = 1_000;

/// The tool.
#[derive(Debug)]
pub(crate) struct AskQuestion {
    spec: ToolSpec,
}

impl Default for AskQuestion {
    fn default() -> Self {
        let spec = arguments::spec(
            "ask_question",
            "Asks the person a question and waits for the answer. Use it only when what you do \
             next depends on the answer and neither the files nor the conversation give it. Do not \
             ask whether to go on, nor for leave to use a tool: that is asked for by itself. Put \
             the option that you recommend first. The result names the chosen ids, or gives the \
             person's own words.",
            json!({
                "question": {"type": "string"},
                "options": {"type": "array", "minItems": 2, "maxItems": 8, "items": {
                    "type": "object",
                    "properties": {
                        "id": {"type": "string", "description": "Default: the label."},
                        "label": {"type": "string", "description": "A few words."},
                        "description": {"type": "string", "description": "What follows from it."}
                    },
                    "required": ["label"],
                    "additionalProperties": false
                }},
                "multi": {"type": "boolean", "description": "Several may be chosen."},
                "allow_other": {
                    "type": "boolean",
                    "description": "Own words are an answer too; default true."
                }
            }),
            &["question", "options"],
        );
        Self { spec }
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments<'a> {
    question: &'a str,
    #[serde(borrow)]
    options: Vec<Choice<'a>>,
    multi: Option<bool>,
    allow_other: Option<bool>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Choice<'a> {
    id: Option<&'a str>,
    label: &'a str,
    description: Option<&'a str>,
}

#[async_trait]
impl Tool for AskQuestion {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn effect(&self) -> Effect {
        Effect::Interact
    }

    async fn facts(
        &self,
        input: &Map<String, Value>,
        _workspace: &dyn Workspace,
    ) -> Result<CallFacts, ToolError> {
        let Question { question, .. } = Question::read(input)?;
        Ok(CallFacts {
            effect: Effect::Interact,
            summary: words::summary(&question),
            paths: Vec::new(),
            command: None,
        })
    }

    fn asks(&self, input: &Map<String, Value>) -> Result<Option<Asks>, ToolError> {
        let Question { question, options, multi_select, allow_other } = Question::read(input)?;
        Ok(Some(Asks::Question { question, options, multi_select, allow_other }))
    }

    async fn run(
        &self,
        _input: &Map<String, Value>,
        _facts: &CallFacts,
        _context: &ToolContext,
    ) -> Result<ToolOutcome, ToolError> {
        Ok(ToolOutcome::error("a question is answered by a person, and nobody was asked"))
    }
}

/// A question that may be put to a person.
#[derive(Debug)]
struct Question {
    question: String,
    options: Vec<QuestionOption>,
    multi_select: bool,
    allow_other: bool,
}

impl Question {
    fn read(input: &Map<String, Value>) -> Result<Self, ToolError> {
        let arguments: Arguments<'_> = arguments::parse(input)?;
        let question = words::text("the question", arguments.question, QUESTION_CHARS_MAX)?;
        let count = arguments.options.len();
        if !(OPTIONS_MIN..=OPTIONS_MAX).contains(&count) {
            return Err(ToolError::Invalid(format!(
                "a question has {OPTIONS_MIN} to {OPTIONS_MAX} options, found {count}"
            )));
        }
        let mut options: Vec<QuestionOption> = Vec::with_capacity(count);
        for (choice, number) in arguments.options.iter().zip(1..) {
            let option = choice.read(number)?;
            for (other, earlier) in options.iter().zip(1..) {
                let what = if other.id == option.id {
                    "id"
                } else if other.label == option.label {
                    "label"
                } else {
                    continue;
                };
                return Err(ToolError::Invalid(format!(
                    "options {earlier} and {number} have the same {what}: an answer could not \
                     tell them apart"
                )));
            }
            options.push(option);
        }
        Ok(Self {
            question: question.to_owned(),
            options,
            multi_select: arguments.multi == Some(true),
            allow_other: arguments.allow_other != Some(false),
        })
    }
}

impl Choice<'_> {
    fn read(&self, number: usize) -> Result<QuestionOption, ToolError> {
        let what = |part: &str| format!("the {part} of option {number}");
        let label = words::line(&what("label"), self.label, LABEL_CHARS_MAX)?;
        let id = match self.id {
            Some(id) => words::line(&what("id"), id, LABEL_CHARS_MAX)?,
            None => label,
        };
        let description = match self.description.map(str::trim) {
            // Some models fill in whatever the schema has.
            None | Some("") => None,
            Some(text) => Some(words::text(&what("description"), text, DESCRIPTION_CHARS_MAX)?),
        };
        Ok(QuestionOption {
            id: id.to_owned(),
            label: label.to_owned(),
            description: description.map(str::to_owned),
        })
    }
}
