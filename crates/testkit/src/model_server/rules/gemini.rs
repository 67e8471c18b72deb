//! What Gemini refuses.

use std::collections::HashSet;

use serde_json::Value;

use super::{Findings, Issued, is_name, output};
use crate::model_server::request::{Request, items, text_at};

pub(super) fn check(request: &Request, issued: &Issued, findings: &mut Findings) {
    let body = &request.body;
    let is_stream = request.wants_stream();
    let is_sse = request.path.contains("alt=sse");
    findings.when(is_stream && !is_sse, "path", "a stream without alt=sse");
    let declared = items(body, "tools").iter().flat_map(|t| items(t, "functionDeclarations"));
    findings.tools(declared.map(|tool| {
        let schema = ["parametersJsonSchema", "parameters_json_schema", "parameters"]
            .iter()
            .find_map(|field| tool.get(*field));
        (text_at(tool, "name"), schema)
    }));
    output::gemini(body, request.model(), findings);
    if let Some(system) = body.get("systemInstruction") {
        let parts = items(system, "parts");
        findings.when(parts.is_empty(), "systemInstruction", "no parts");
        parts.iter().for_each(|part| findings.text("systemInstruction", part.get("text")));
    }
    let contents = request.messages();
    findings.when(contents.is_empty(), "contents", "empty");
    let roles: Vec<_> = contents.iter().map(role).collect();
    findings.roles("contents", &roles, "model");
    let is_fresh = |content: &Value| {
        role(content) == "user" && items(content, "parts").iter().any(|p| p.get("text").is_some())
    };
    let turn = contents.iter().rposition(is_fresh).unwrap_or(0);
    let mut calls: Vec<&Value> = Vec::new();
    for (index, content) in contents.iter().enumerate() {
        let place = format!("contents[{index}]");
        let parts = items(content, "parts");
        findings.when(parts.is_empty(), &place, "no parts");
        for (at, part) in parts.iter().enumerate() {
            let place = format!("{place}.parts[{at}]");
            check_part(part, role(content), issued, &place, findings);
            if index > turn {
                signature_kept(part, issued, &place, findings);
            }
        }
        if role(content) == "user" {
            results(parts, &calls, &place, findings);
            calls.clear();
        } else {
            calls = parts.iter().filter_map(|part| part.get("functionCall")).collect();
            unique_ids(&calls, &place, findings);
        }
    }
}

fn role(content: &Value) -> &str {
    content.get("role").and_then(Value::as_str).unwrap_or("user")
}

fn check_part(part: &Value, role: &str, issued: &Issued, place: &str, findings: &mut Findings) {
    let signature = part.get("thoughtSignature").and_then(Value::as_str);
    let is_issued = |text: &str| issued.signatures.contains_key(&issued.as_issued(text));
    if signature.is_some_and(|signature| !is_issued(signature)) {
        findings.add(place, "the thought signature is not one that was issued");
    }
    if let Some(call) = part.get("functionCall") {
        findings.when(role != "model", place, "a call in a message of the user");
        findings.when(!is_name(text_at(call, "name")), place, "no proper name of a tool");
        let is_object = call.get("args").is_none_or(Value::is_object);
        findings.when(!is_object, place, "the arguments are no object");
    } else if let Some(answer) = part.get("functionResponse") {
        findings.when(role != "user", place, "a result in a message of the model");
        let is_object = answer.get("response").is_some_and(Value::is_object);
        findings.when(!is_object, place, "the response is no object");
    } else if let Some(data) = part.get("inlineData") {
        findings.image(place, text_at(data, "mimeType"), text_at(data, "data"));
    } else if part.get("text").is_some() {
        // A signature may ride on a part without text.
        if signature.is_none() {
            findings.text(place, part.get("text"));
        }
    } else {
        findings.add(place, "a part without content");
    }
}

/// In the turn that runs, a call comes back with the signature that it was issued with.
fn signature_kept(part: &Value, issued: &Issued, place: &str, findings: &mut Findings) {
    let Some(call) = part.get("functionCall") else { return };
    let wanted = issued.calls.get(text_at(call, "id"));
    let is_lost =
        wanted.is_some_and(|wanted| *wanted != issued.as_issued(text_at(part, "thoughtSignature")));
    findings.when(is_lost, place, "the thought signature of this call is gone");
}

fn results(parts: &[Value], calls: &[&Value], place: &str, findings: &mut Findings) {
    let answers: Vec<_> = parts.iter().filter_map(|part| part.get("functionResponse")).collect();
    let is_answer = |part: &Value| part.get("functionResponse").is_some();
    let is_sorted = parts.iter().skip_while(|p| is_answer(p)).all(|p| !is_answer(p));
    findings.when(!is_sorted, place, "a result stands after other content");
    let have_ids = calls.iter().chain(&answers).all(|item| !text_at(item, "id").is_empty());
    // Without ids the order of names is what pairs them.
    let field = if have_ids { "id" } else { "name" };
    let mut called: Vec<_> = calls.iter().map(|call| text_at(call, field)).collect();
    let mut answered: Vec<_> = answers.iter().map(|answer| text_at(answer, field)).collect();
    if have_ids {
        return findings.pairs(place, &called, &answered);
    }
    called.sort_unstable();
    answered.sort_unstable();
    let is_equal = called == answered;
    findings.when(!is_equal, place, &format!("calls of {called:?}, results of {answered:?}"));
}

fn unique_ids(calls: &[&Value], place: &str, findings: &mut Findings) {
    let mut seen = HashSet::new();
    for id in calls.iter().map(|call| text_at(call, "id")).filter(|id| !id.is_empty()) {
        findings.when(!seen.insert(id), place, &format!("the id {id:?} occurs twice"));
    }
}
