//! Which addresses may be reached, whatever they are called.

use driver_api::{Egress, EgressRule};

use super::house::{House, allow, fine, rule, status};

fn private(host: &str) -> EgressRule {
    EgressRule { allows_private: true, ..rule(host) }
}

#[tokio::test]
async fn places_that_are_not_public_are_refused() {
    let mut house = House::new();
    house.serve("a.example", 80, fine).await;
    for (name, addresses) in [
        ("private.example", &["10.0.0.5"][..]),
        ("loop.example", &["127.0.0.1"]),
        ("six.example", &["::1"]),
        ("mapped.example", &["::ffff:192.168.0.1"]),
        ("local.example", &["169.254.1.1"]),
        ("meta.example", &["169.254.169.254"]),
        ("mixed.example", &["93.184.215.14", "10.0.0.5"]),
        ("nat.example", &["64:ff9b::a00:5"]),
    ] {
        house.names.add(name, &[addresses]);
    }
    let literals = ["10.0.0.5", "127.0.0.1", "::1", "169.254.169.254", "0.0.0.0", "localhost"];
    let mut egress = allow(&literals);
    egress.allow.extend([rule("*.example"), rule("metadata.google.internal")]);
    let entrance = house.open(&egress);
    for host in [
        "private.example",
        "loop.example",
        "six.example",
        "mapped.example",
        "local.example",
        "meta.example",
        "mixed.example",
        "nat.example",
        "10.0.0.5",
        "127.0.0.1",
        "2130706433",
        "0x7f.1",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "169.254.169.254",
        "0.0.0.0",
        "localhost",
        "metadata.google.internal",
    ] {
        let answer = entrance.get(&format!("http://{host}/")).await;
        assert_eq!(status(&answer), 403, "{host}: {answer}");
        let says = answer.contains("its rule would have to allow private addresses")
            || answer.contains("a rule would have to name it by itself")
            || answer.contains("which no rule opens");
        assert!(says, "{host}: {answer}");
        let (head, _) = entrance.connect(&format!("{host}:443")).await;
        assert_eq!(status(&head), 403, "{host}");
    }
    let answer = entrance.get("http://private.example/").await;
    assert!(!answer.contains("10.0.0.5"), "the address is nothing for the neuron: {answer}");
    assert!(house.dialled().is_empty(), "{:?}", house.dialled());
    assert!(house.record.all().iter().all(|event| event.refused.is_some()));
}

#[tokio::test]
async fn a_rule_may_allow_private_addresses_but_no_metadata_by_the_way() {
    let mut house = House::new();
    let real = house.listen(fine).await;
    house.names.add("svc.corp.example", &[&["127.0.0.1"]]);
    house.names.add("meta.corp.example", &[&["169.254.169.254"]]);
    house.serve("169.254.169.254", 80, fine).await;
    let port = real.port();
    let at = |host: &str, port: u16| EgressRule { port: Some(port), ..private(host) };
    let allow = vec![
        at("127.0.0.1", port),
        at("localhost", port),
        at("*.corp.example", port),
        at("meta.corp.example", 80),
    ];
    house.names.add("localhost", &[&["127.0.0.1"]]);
    let entrance = house.open(&Egress { allow, credentials: Vec::new() });
    for (place, expected) in [
        (format!("127.0.0.1:{port}"), 200),
        (format!("localhost:{port}"), 200),
        (format!("svc.corp.example:{port}"), 200),
        (format!("meta.corp.example:{port}"), 403),
        ("meta.corp.example:80".to_owned(), 403),
    ] {
        let answer = entrance.get(&format!("http://{place}/")).await;
        assert_eq!(status(&answer), expected, "{place}: {answer}");
    }
    entrance.door.close().await;
}

#[tokio::test]
async fn a_metadata_server_is_reached_when_a_rule_names_it_by_itself() {
    let mut house = House::new();
    house.serve("169.254.169.254", 80, fine).await;
    let allow = vec![private("169.254.169.254")];
    let entrance = house.open(&Egress { allow, credentials: Vec::new() });
    assert_eq!(status(&entrance.get("http://169.254.169.254/").await), 200);
}

#[tokio::test]
async fn a_name_that_changes_its_address_is_judged_each_time() {
    let mut house = House::new();
    house.serve("a.example", 80, fine).await;
    house.names.add("a.example", &[&["93.184.215.14"], &["127.0.0.1"], &["93.184.215.14"]]);
    let entrance = house.open(&allow(&["a.example"]));
    for expected in [200, 403, 200] {
        assert_eq!(status(&entrance.get("http://a.example/").await), expected);
    }
    assert_eq!(house.dialled(), ["93.184.215.14:80", "93.184.215.14:80"]);
}
