//! `narthex policy`: why a call may run, and the bundles that say so.

use std::fmt::Write;
use terminal::{Console, Exit, Failure, Paint, escape};

use crate::args::{Globals, PolicyAction};
use crate::door::{Room, print};
use crate::machine::{
    ExplainedCall, ExplainedPart, Machine, PolicyInForce, PolicyLayer, PolicyWord, VerifiedBundle,
};
use crate::session::say_all;

/// The longest piece of foreign text in a line.
const CHARS_MAX: usize = 400;
/// How wide the column of layers is: as wide as the longest name, `managed` or `project`.
const LAYER_WIDTH: usize = 7;

/// Runs a command about policies.
pub(crate) async fn run<M: Machine>(
    room: &mut Room<'_, M>,
    globals: &Globals,
    action: PolicyAction,
) -> Result<Exit, Failure> {
    let machine = room.machine;
    match action {
        PolicyAction::Explain { call, json } => {
            let work = machine.explain(globals, &call);
            let explained = room.desk.stops.guard(work).await?;
            let console = &mut room.desk.console;
            say_all(&explained.notices, console);
            if json {
                return show_json(console, &explained.json);
            }
            let text = explanation(&explained, console.data_paint());
            print(console, &text)
        }
        PolicyAction::Show { json } => {
            let work = machine.policy(globals);
            let policy = room.desk.stops.guard(work).await?;
            let console = &mut room.desk.console;
            say_all(&policy.notices, console);
            if json {
                return show_json(console, &policy.json);
            }
            let text = in_force(&policy, console.data_paint());
            print(console, &text)
        }
        PolicyAction::Keygen { out } => {
            let key = machine.make_key(globals, &out)?;
            let console = &mut room.desk.console;
            console.say(&format!(
                "wrote the private key to {}; keep it where only those who write policies can \
                 read it",
                line(&key.path.display().to_string())
            ));
            console.say(&format!(
                "the public key, {}, belongs into the managed settings as remotePolicyPublicKey or \
                 in embed.hostPolicyPublicKeys",
                key.id
            ));
            print(console, &format!("{}\n", key.public))
        }
        PolicyAction::Sign { bundle, key, out } => {
            let signed = machine.sign(globals, &bundle, &key, out.as_deref())?;
            let console = &mut room.desk.console;
            say_all(&signed.notices, console);
            match signed.written {
                Some(path) => {
                    console.say(&format!("wrote {}", line(&path.display().to_string())));
                    Ok(Exit::Done)
                }
                None => print(console, &signed.text),
            }
        }
        PolicyAction::Verify { file, public_key, json } => {
            let verified = machine.verify(globals, &file, &public_key)?;
            let console = &mut room.desk.console;
            if json {
                show_json(console, &verified.json)?;
            } else {
                let text = verification(&verified, console.data_paint());
                print(console, &text)?;
            }
            Ok(if verified.refusal.is_some() { Exit::Failed } else { Exit::Done })
        }
    }
}

fn show_json(console: &mut Console, value: &serde_json::Value) -> Result<Exit, Failure> {
    match console.json(&value.to_string()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(Failure::failed(format!("write standard output: {error}")))
        }
        _ => Ok(Exit::Done),
    }
}

/// Writes a word in its colour, as wide as the longest.
fn word(word: PolicyWord, paint: Paint) -> String {
    match word {
        PolicyWord::Allow => paint.good("allow"),
        PolicyWord::Ask => paint.care("ask  "),
        PolicyWord::Deny => paint.bad("deny "),
    }
}

fn line(text: &str) -> String {
    escape::line(text, CHARS_MAX)
}

fn explanation(explained: &ExplainedCall, paint: Paint) -> String {
    let mut text = String::new();
    let call = paint.bold(&line(&explained.call));
    let verdict = word(explained.word, paint);
    add(&mut text, &format!("{verdict}  {call}"));
    add(&mut text, &format!("       {}", line(&explained.reason)));
    heading(&mut text, "parts", paint);
    for part in &explained.parts {
        add_part(&mut text, part, paint);
    }
    heading(&mut text, "mode", paint);
    let said = word(explained.mode_word, paint);
    let mode = paint.dim(&format!("({})", explained.mode));
    add(&mut text, &format!("  {said}  {} {mode}", line(&explained.mode_reason)));
    heading(&mut text, "layers, from strongest to weakest", paint);
    add_layers(&mut text, &explained.layers, paint);
    if !explained.voters.is_empty() {
        heading(&mut text, "beside the policy", paint);
    }
    for voter in &explained.voters {
        add(&mut text, &format!("  {}", line(voter)));
    }
    text
}

fn add_part(text: &mut String, part: &ExplainedPart, paint: Paint) {
    let verdict = word(part.word, paint);
    let kind = paint.dim(&format!("({})", part.kind));
    add(text, &format!("  {verdict}  {} {kind}", line(&part.text)));
    add(text, &format!("         {}", line(&part.reason)));
    let width = part.rules.iter().map(|rule| line(&rule.rule).chars().count()).max().unwrap_or(0);
    for rule in &part.rules {
        let sign = if rule.decides { paint.mark("→") } else { " ".to_owned() };
        let said = word(rule.word, paint);
        let shown = format!("{:<width$}", line(&rule.rule));
        let layer = format!("{:<LAYER_WIDTH$}", rule.layer);
        let note = match (rule.decides, rule.note.as_str()) {
            (true, "") => paint.mark("decides"),
            (true, note) => paint.mark(&format!("decides: {}", line(note))),
            (false, note) => paint.dim(&line(note)),
        };
        let row = format!("       {sign} {layer}  {said}  {shown}  {note}");
        add(text, row.trim_end());
    }
}

fn add_layers(text: &mut String, layers: &[PolicyLayer], paint: Paint) {
    let width = layers.iter().map(|layer| line(&layer.says).chars().count()).max().unwrap_or(0);
    for layer in layers {
        let name = format!("{:<LAYER_WIDTH$}", layer.name);
        let says = format!("{:<width$}", line(&layer.says));
        let row = match layer.has_say {
            true => format!("  {name}  {says}  {}", paint.dim(&line(&layer.source))),
            false => {
                let row = format!("{name}  {says}  {}", line(&layer.source));
                format!("  {}", paint.dim(row.trim_end()))
            }
        };
        add(text, row.trim_end());
    }
}

fn in_force(policy: &PolicyInForce, paint: Paint) -> String {
    let mut text = String::new();
    add(&mut text, &paint.bold("layers, from strongest to weakest"));
    add_layers(&mut text, &policy.layers, paint);
    if !policy.facts.is_empty() {
        text.push('\n');
        add_facts(&mut text, &policy.facts, paint);
    }
    text
}

fn verification(verified: &VerifiedBundle, paint: Paint) -> String {
    let mut text = String::new();
    match &verified.refusal {
        None => add(&mut text, &paint.good("valid")),
        Some((reason, message)) => {
            let refused = paint.bad("refused");
            add(&mut text, &format!("{refused}  {}: {}", paint.bold(reason), line(message)));
        }
    }
    add_facts(&mut text, &verified.facts, paint);
    text
}

fn add_facts(text: &mut String, facts: &[(String, String)], paint: Paint) {
    let width = facts.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    for (name, value) in facts {
        let name = paint.dim(&format!("{name:<width$}"));
        add(text, &format!("  {name}  {}", line(value)));
    }
}

fn heading(text: &mut String, name: &str, paint: Paint) {
    text.push('\n');
    add(text, &paint.bold(name));
}

fn add(text: &mut String, line: &str) {
    // Writing to a text cannot fail.
    let _ = writeln!(text, "{line}");
}
