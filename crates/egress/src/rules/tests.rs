//! Rules and credentials, read and judged by.

use stdx::Secret;

use driver_api::EgressCredential;

use super::*;

fn rule(host: &str) -> EgressRule {
    EgressRule { host: host.to_owned(), port: None, methods: Vec::new(), allows_private: false }
}

fn credential(host: &str, header: &str, value: &str) -> EgressCredential {
    EgressCredential {
        host: host.to_owned(),
        header: header.to_owned(),
        prefix: String::new(),
        value: Secret::new(value.to_owned()),
        variable: None,
    }
}

fn rules(allow: &[EgressRule]) -> Rules {
    Rules::read(&Egress { allow: allow.to_vec(), credentials: Vec::new() }, Vec::new()).unwrap()
}

fn covers(pattern: &str, host: &str) -> bool {
    Pattern::parse(pattern).unwrap().covers(&Place::parse(host).unwrap())
}

#[test]
fn a_star_stands_for_names_beneath_and_not_for_the_name() {
    for (pattern, host, expected) in [
        ("example.com", "example.com", true),
        ("EXAMPLE.com.", "example.com", true),
        ("example.com", "a.example.com", false),
        ("*.example.com", "a.example.com", true),
        ("*.example.com", "a.b.example.com", true),
        ("*.example.com", "example.com", false),
        ("*.example.com", "evilexample.com", false),
        ("*.example.com", "a.example.com.evil.example", false),
        ("bücher.example", "xn--bcher-kva.example", true),
        ("10.0.0.1", "10.0.0.1", true),
        ("10.0.0.1", "167772161", true),
        ("10.0.0.1", "[::ffff:10.0.0.1]", true),
        ("fd00::1", "[fd00:0::1]", true),
        ("[fd00::1]", "[fd00::1]", true),
        ("*.0.0.1.example", "10.0.0.1", false),
    ] {
        assert_eq!(covers(pattern, host), expected, "{pattern} {host}");
    }
}

#[test]
fn a_rule_that_cannot_be_read_is_named() {
    let cases: &[(EgressRule, &str, &str)] = &[
        (rule("*"), "egress.allow[1].host", "everything"),
        (rule(""), "egress.allow[1].host", "no host"),
        (rule("https://example.com"), "egress.allow[1].host", "host alone"),
        (rule("example.com/path"), "egress.allow[1].host", "host alone"),
        (rule("example.com:8443"), "egress.allow[1].host", "`port`"),
        (rule("a.*.example.com"), "egress.allow[1].host", "no host"),
        (rule("*.10.0.0.1"), "egress.allow[1].host", "no host"),
        (rule("*.*.example.com"), "egress.allow[1].host", "no host"),
        (EgressRule { port: Some(0), ..rule("a.example") }, "egress.allow[1].port", "port 0"),
        (
            EgressRule { methods: vec!["GET,POST".into()], ..rule("a.example") },
            "egress.allow[1].methods",
            "no method",
        ),
        (
            EgressRule { methods: vec!["trace".into()], ..rule("a.example") },
            "egress.allow[1].methods",
            "no method",
        ),
    ];
    for (wrong, field, part) in cases {
        let egress = Egress { allow: vec![rule("a.example"), wrong.clone()], ..Egress::default() };
        let error = Rules::read(&egress, Vec::new()).unwrap_err().to_string();
        assert!(error.starts_with(&format!("{field}: ")) && error.contains(part), "{error}");
    }
}

#[test]
fn a_credential_that_cannot_be_used_is_named_without_its_value() {
    let named = |variable: &str| EgressCredential {
        variable: Some(variable.to_owned()),
        ..credential("b.example", "x-key", "s3cr3t-value")
    };
    for (wrong, part) in [
        (credential("*", "x-key", "s3cr3t-value"), "[1].host: "),
        (credential("b.example", "x key", "s3cr3t-value"), "[1].header: "),
        (credential("b.example", "Host", "s3cr3t-value"), "[1].header: "),
        (credential("b.example", "Transfer-Encoding", "s3cr3t-value"), "[1].header: "),
        (credential("b.example", "x-key", ""), "[1].value: "),
        (credential("b.example", "x-key", "s3cr3"), "[1].value: it is empty or has fewer"),
        (credential("b.example", "x-key", &"s3cr3t".repeat(1_400)), "[1].value: it has more"),
        (credential("b.example", "x-key", "s3cr3t-value\r\nx: y"), "[1].value: "),
        (credential("A.example.", "Authorization", "s3cr3t-value"), "[1].header: another"),
        (named("1KEY"), "[1].variable: "),
        (named("A-KEY"), "[1].variable: "),
        (named(""), "[1].variable: "),
        (named("KEY"), "[1].variable: another"),
    ] {
        let first = EgressCredential {
            variable: Some("KEY".to_owned()),
            ..credential("a.example", "authorization", "Bearer s3cr3t-first")
        };
        let egress = Egress { allow: Vec::new(), credentials: vec![first, wrong] };
        let error = Rules::read(&egress, Vec::new()).unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
        assert!(!error.contains("s3cr3t"), "{error}");
    }
}

#[test]
fn hosts_ports_and_methods_are_all_looked_at() {
    let get = EgressRule { methods: vec!["get".into(), "HEAD".into()], ..rule("read.example") };
    let odd = EgressRule { port: Some(8443), ..rule("odd.example") };
    let rules = rules(&[rule("a.example"), get, odd]);
    let judge = |method: &str, target: &str| {
        let target = Target::parse(target, None).unwrap();
        let method = Method::from_bytes(method.as_bytes()).unwrap();
        rules.request(&target, &method).map(|_| ()).map_err(|refusal| {
            assert_eq!(refusal.status, 403);
            refusal.reason
        })
    };
    assert_eq!(judge("DELETE", "a.example:443"), Ok(()));
    assert_eq!(judge("GET", "a.example:80"), Ok(()));
    assert_eq!(judge("GET", "odd.example:8443"), Ok(()));
    assert_eq!(judge("HEAD", "read.example:80"), Ok(()));
    for (method, target, reason) in [
        ("GET", "b.example:80", "b.example is not in the allow list of this neuron"),
        ("GET", "a.example:8080", "the port 8080 is not allowed for a.example (allowed: 80, 443)"),
        ("GET", "odd.example:443", "the port 443 is not allowed for odd.example (allowed: 8443)"),
        (
            "POST",
            "read.example:80",
            "the method POST is not allowed for read.example (allowed: GET, HEAD)",
        ),
        (
            "get",
            "read.example:80",
            "the method get is not allowed for read.example (allowed: GET, HEAD)",
        ),
        ("TRACE", "a.example:80", "the method TRACE is never let through"),
    ] {
        assert_eq!(judge(method, target), Err(reason.to_owned()));
    }
}

#[test]
fn methods_are_not_seen_inside_of_tls_without_a_credential() {
    let get = EgressRule { methods: vec!["GET".into()], ..rule("read.example") };
    let also = rule("*.example");
    let target = Target::parse("read.example:443", None).unwrap();
    let refusal = rules(std::slice::from_ref(&get)).connect(&target).unwrap_err();
    assert!(refusal.reason.contains("limited (GET)"), "{refusal:?}");
    let passage = rules(&[get.clone(), also]).connect(&target).unwrap();
    assert!(matches!(passage, Passage::Through(_)));
    let credentials = vec![credential("read.example", "x-key", "s3cr3t-value")];
    let rules = Rules::read(&Egress { allow: vec![get], credentials }, Vec::new()).unwrap();
    assert!(matches!(rules.connect(&target).unwrap(), Passage::Inside));
}

#[test]
fn the_most_precise_credential_is_set_for_each_header() {
    let egress = Egress {
        allow: Vec::new(),
        credentials: vec![
            credential("*.example", "x-key", "widest-value"),
            credential("*.b.example", "x-key", "wider-value"),
            credential("a.b.example", "x-key", "exact-value"),
            credential("*.example", "x-other", "other-value"),
        ],
    };
    let rules = Rules::read(&egress, Vec::new()).unwrap();
    let set = |host: &str| {
        let mut headers = http::HeaderMap::new();
        for credential in rules.credentials_for(&Place::parse(host).unwrap()) {
            credential.set(&mut headers);
        }
        let value = |name: &str| headers.get(name).map(|value| value.to_str().unwrap().to_owned());
        (value("x-key"), value("x-other"))
    };
    let some = |text: &str| Some(text.to_owned());
    assert_eq!(set("a.b.example"), (some("exact-value"), some("other-value")));
    assert_eq!(set("c.b.example"), (some("wider-value"), some("other-value")));
    assert_eq!(set("c.example"), (some("widest-value"), some("other-value")));
    assert_eq!(set("example"), (None, None));
}

#[test]
fn headers_that_tell_a_secret_are_removed_and_nothing_shows_it() {
    let login = credential("a.example", "authorization", "Basic dXNlcjpzM2NyM3QtcGFzcw==");
    let token = credential("a.example", "x-key", "Token s3cr3t-token");
    let egress = Egress { allow: Vec::new(), credentials: vec![login, token] };
    let rules = Rules::read(&egress, Vec::new()).unwrap();
    let shown = format!("{rules:?}");
    assert!(!shown.contains("s3cr3t") && !shown.contains("dXNl"), "{shown}");
    let mut headers = http::HeaderMap::new();
    for (name, value) in [
        ("x-whole", "you sent Token s3cr3t-token."),
        ("x-part", "s3cr3t-token"),
        ("x-basic", "dXNlcjpzM2NyM3QtcGFzcw=="),
        ("x-login", "user:s3cr3t-pass"),
        ("x-pass", "s3cr3t-pass"),
        ("x-s3cr3t-token", "1"),
        ("x-harmless", "Token Basic user"),
    ] {
        headers.insert(name.parse::<http::HeaderName>().unwrap(), value.parse().unwrap());
    }
    headers.append("x-harmless", "more".parse().unwrap());
    for credential in rules.credentials() {
        credential.hide(&mut headers);
    }
    let left: Vec<_> = headers.keys().map(http::HeaderName::as_str).collect();
    assert_eq!(left, ["x-harmless"]);
    assert_eq!(headers.get_all("x-harmless").iter().count(), 2);
}

#[test]
fn a_secret_behind_a_prefix_of_any_kind_is_removed_by_itself() {
    let own = EgressCredential {
        prefix: "token=".to_owned(),
        ..credential("a.example", "x-key", "s3cr3t-value")
    };
    let rules = Rules::read(&Egress { allow: Vec::new(), credentials: vec![own] }, Vec::new());
    let rules = rules.unwrap();
    let mut headers = http::HeaderMap::new();
    rules.credentials()[0].set(&mut headers);
    assert_eq!(headers["x-key"], "token=s3cr3t-value");
    for (name, value) in [("x-part", "you said s3cr3t-value"), ("x-s3cr3t-value", "1")] {
        headers.insert(name.parse::<http::HeaderName>().unwrap(), value.parse().unwrap());
    }
    rules.credentials()[0].hide(&mut headers);
    assert!(headers.is_empty(), "{headers:?}");
}

#[test]
fn placeholders_that_commands_know_stay_and_those_without_a_credential_are_known_too() {
    let named = |variable: &str| EgressCredential {
        variable: Some(variable.to_owned()),
        ..credential("a.example", variable, "s3cr3t-value")
    };
    let of = |variable: &str| Placeholder {
        variable: variable.to_owned(),
        text: format!("known-{variable}"),
    };
    let egress = Egress { allow: Vec::new(), credentials: vec![named("OLD"), named("NEW")] };
    let rules = Rules::read(&egress, vec![of("OLD"), of("GONE")]).unwrap();
    let all: Vec<_> = rules
        .placeholders()
        .map(|(own, credential)| (own.variable.as_str(), own.text.as_str(), credential.is_some()))
        .collect();
    assert_eq!(
        (all.len(), all[0], all[2]),
        (3, ("OLD", "known-OLD", true), ("GONE", "known-GONE", false))
    );
    assert!(all[1].1.starts_with("narthex-placeholder-"), "{all:?}");
}
