//! Hosts with a credential: TLS ends at the proxy, and the secret stays outside.

use std::sync::Arc;

use driver_api::{Egress, EgressRule};
use egress::{EgressError, Options};
use rustls::pki_types::ServerName;
use tokio_rustls::TlsConnector;

use super::house::{Entrance, House, allow, client_config, credential, fine, rule, say, status};
use super::logs;

const SECRET: &str = "Bearer s3cr3t-0f-the-h0use";
const TOKEN: &str = "s3cr3t-0f-the-h0use";

fn with_secret(hosts: &[&str], host: &str) -> Egress {
    Egress { credentials: vec![credential(host, "authorization", SECRET)], ..allow(hosts) }
}

fn placeholder(entrance: &Entrance) -> String {
    let variables = entrance.door.variables();
    variables.into_iter().find(|(name, _)| name == "API_KEY").unwrap().1
}

/// One request inside of a tunnel whose TLS ends at the proxy.
async fn ask(entrance: &Entrance, host: &str, request: &str) -> String {
    let target = format!("{host}:443");
    let mut stream = entrance.tls(&target, host, &entrance.ca()).await.unwrap();
    say(&mut stream, request).await
}

fn get(host: &str, more: &str) -> String {
    format!("GET /v1 HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n{more}\r\n")
}

/// Tells the secret wherever a server can, but for the body.
fn tell(request: &str) -> Vec<u8> {
    assert!(request.contains(TOKEN), "{request}");
    format!(
        "HTTP/1.1 299 you said {TOKEN}\r\nx-echo: {SECRET}\r\nlocation: /?k={TOKEN}\r\n\
         x-{TOKEN}: 1\r\nx-plain: y\r\ntrailer: x-end\r\ntransfer-encoding: chunked\r\n\r\n\
         4\r\nfine\r\n0\r\nx-end: {TOKEN}\r\n\r\n"
    )
    .into_bytes()
}

#[tokio::test]
async fn the_secret_is_set_outside_and_never_comes_in() {
    let mut house = House::new();
    house.serve_tls("api.example", tell).await;
    let entrance = house.open(&with_secret(&["api.example"], "api.example"));
    let placeholder = placeholder(&entrance);
    assert!(placeholder.starts_with("narthex-placeholder-"), "{placeholder}");
    let more = format!("Authorization: Bearer {placeholder}\r\nauthorization: second\r\nx: y\r\n");
    let answer = ask(&entrance, "api.example", &get("api.example", &more)).await;
    assert_eq!(status(&answer), 299);
    assert!(answer.contains("x-plain: y") && answer.contains("fine"), "{answer}");

    let heard = house.heard().remove(0);
    assert!(heard.starts_with("GET /v1 HTTP/1.1\r\n"), "{heard}");
    assert_eq!(heard.matches("authorization:").count(), 1, "{heard}");
    assert!(heard.contains(&format!("authorization: {SECRET}\r\n")), "{heard}");
    assert!(heard.contains("host: api.example\r\n") && heard.contains("x: y\r\n"), "{heard}");
    assert!(!heard.contains(&placeholder), "{heard}");

    let event = house.record.wait(1).await.remove(0);
    assert_eq!(
        (event.method.as_str(), event.host.as_str(), event.port),
        ("GET", "api.example", 443)
    );
    assert_eq!((event.status, event.refused.as_ref()), (Some(299), None));
    assert!(event.has_credential);
    assert_eq!(event.address, Some("93.184.215.14".parse().unwrap()));

    let certificates = entrance.door.certificates().await;
    let seen_inside = format!(
        "{answer} {:?} {:?} {:?} {event:?} {:?}",
        entrance.door,
        entrance.door.variables(),
        certificates,
        house.open_error(),
    );
    assert!(!seen_inside.contains(TOKEN), "{seen_inside}");
    // The secret has gone through the whole stack by now.
    assert!(logs::lines().iter().all(|line| !line.contains(TOKEN)), "it was logged");
}

impl House {
    /// The error of a credential that cannot be used.
    fn open_error(&self) -> EgressError {
        let mut egress = with_secret(&["api.example"], "api.example");
        egress.credentials[0].header = "content-length".to_owned();
        self.try_open(&egress, self.options()).unwrap_err()
    }
}

#[tokio::test]
async fn other_hosts_pass_through_beside_it() {
    let mut house = House::new();
    house.serve_tls("api.example", fine).await;
    let certificate = house.serve_tls("other.example", fine).await;
    let entrance = house.open(&with_secret(&["*.example"], "api.example"));
    let root = &house.vouch.certificate;
    let mut stream = entrance.tls("other.example:443", "other.example", root).await.unwrap();
    assert_eq!(stream.get_ref().1.peer_certificates().unwrap(), [certificate]);
    let answer = say(&mut stream, &get("other.example", "authorization: own\r\n")).await;
    assert!(answer.ends_with("fine"), "{answer}");
    assert!(house.heard()[0].contains("authorization: own"));

    // Who does not trust the authority of the neuron gets nowhere, and the record says why.
    let error = entrance.tls("api.example:443", "api.example", root).await.unwrap_err();
    assert!(error.to_string().contains("UnknownIssuer"), "{error}");
    let events = house.record.wait(2).await;
    let refused = events[1].refused.as_ref().unwrap();
    assert!(refused.contains("trust the certificate of the neuron"), "{refused}");
}

#[tokio::test]
async fn requests_inside_are_judged_one_by_one() {
    let mut house = House::new();
    house.serve_tls("api.example", fine).await;
    let mut egress = with_secret(&[], "*.example");
    let methods = vec!["GET".to_owned(), "POST".to_owned()];
    egress.allow.push(EgressRule { methods, ..rule("api.example") });
    let entrance = house.open(&egress);
    let placeholder = placeholder(&entrance);
    let has_key = format!("x-key: k{placeholder}\r\n");
    let close = "connection: close";
    for (request, expected, part) in [
        (get("api.example", ""), 200, "fine"),
        (get("API.example.:443", ""), 200, "fine"),
        (get("other.example", ""), 421, "is not for other.example:443"),
        (get("api.example:444", ""), 421, "is not for api.example:444"),
        (get("api.example", "host: api.example\r\n"), 400, "one Host"),
        (get("api.example", &has_key), 403, "stands in the header x-key"),
        (
            format!("GET /?k={placeholder} HTTP/1.1\r\nhost: api.example\r\n{close}\r\n\r\n"),
            403,
            "stands in the address",
        ),
        (get("api.example", "").replace("GET", "PUT"), 403, "the method PUT is not allowed"),
        (get("api.example", "").replace("GET", "TRACE"), 403, "never"),
        (
            format!("CONNECT api.example:443 HTTP/1.1\r\nhost: api.example\r\n{close}\r\n\r\n"),
            403,
            "never",
        ),
        (
            format!("GET https://b.example/ HTTP/1.1\r\nhost: api.example\r\n{close}\r\n\r\n"),
            421,
            "is not for b.example:443",
        ),
        (
            format!(
                "POST / HTTP/1.1\r\nhost: api.example\r\n{close}\r\ncontent-length: 2\r\n\r\nhi"
            ),
            200,
            "fine",
        ),
    ] {
        let before = house.record.all().len();
        let answer = ask(&entrance, "api.example", &request).await;
        assert_eq!(status(&answer), expected, "{request}: {answer}");
        assert!(answer.contains(part), "{request}: {answer}");
        let event = house.record.wait(before + 1).await.remove(before);
        assert_eq!(event.status, Some(expected));
        assert_eq!(event.refused.is_some(), expected != 200);
    }
    assert_eq!(house.heard().len(), 3);
    assert!(house.heard().iter().all(|request| !request.contains("placeholder")));
    let (head, _) = entrance.connect("other.example:443").await;
    assert_eq!(status(&head), 403, "a credential opens no host");
}

#[tokio::test]
async fn the_secret_is_not_sent_unencrypted_over_the_internet() {
    let mut house = House::new();
    house.serve("api.example", 80, fine).await;
    let real = house.listen(fine).await;
    house.names.add("svc.local.example", &[&["127.0.0.1"]]);
    let mut egress = with_secret(&["api.example"], "*.example");
    egress.allow.push(EgressRule {
        port: Some(real.port()),
        allows_private: true,
        ..rule("svc.local.example")
    });
    let entrance = house.open(&egress);
    let answer = entrance.get("http://api.example/").await;
    assert_eq!(status(&answer), 403);
    assert!(answer.contains("not sent unencrypted: ask for https://"), "{answer}");
    assert!(house.heard().is_empty());
    let answer = entrance.get(&format!("http://svc.local.example:{}/", real.port())).await;
    assert_eq!(status(&answer), 200);
    assert!(house.heard()[0].contains(SECRET));
    let events = house.record.wait(2).await;
    assert_eq!([events[0].has_credential, events[1].has_credential], [false, true]);
}

#[tokio::test]
async fn a_server_with_another_certificate_is_told_nothing() {
    let mut house = House::new();
    house.serve_tls_as("api.example", "evil.example", fine).await;
    let entrance = house.open(&with_secret(&["api.example"], "api.example"));
    let answer = ask(&entrance, "api.example", &get("api.example", "")).await;
    assert_eq!(status(&answer), 502);
    assert!(
        answer.contains("connect to api.example:443") && answer.contains("ertificate"),
        "{answer}"
    );
    assert!(house.heard().is_empty());
    assert_eq!(house.record.wait(1).await[0].status, Some(502));
}

#[tokio::test]
async fn one_tunnel_carries_several_requests() {
    let mut house = House::new();
    house.serve_tls("api.example", fine).await;
    let entrance = house.open(&with_secret(&["api.example"], "api.example"));
    let both = format!(
        "{}{}",
        get("api.example", "").replace("close", "keep-alive"),
        get("api.example", "")
    );
    let answer = ask(&entrance, "api.example", &both).await;
    assert_eq!(answer.matches("fine").count(), 2, "{answer}");
    assert_eq!(house.heard().iter().filter(|request| request.contains(SECRET)).count(), 2);
    house.record.wait(2).await;
}

#[tokio::test]
async fn another_name_and_another_protocol_are_refused() {
    let mut house = House::new();
    house.serve_tls("api.example", fine).await;
    let entrance = house.open(&with_secret(&["*.example"], "*.example"));
    let error = entrance.tls("api.example:443", "b.example", &entrance.ca()).await.unwrap_err();
    assert!(error.to_string().contains("UnrecognisedName"), "{error}");
    let (_, stream) = entrance.connect("api.example:443").await;
    let config = Arc::new(client_config(&entrance.ca(), &["h2"]));
    let name = ServerName::try_from("api.example").unwrap();
    assert!(TlsConnector::from(config).connect(name, stream).await.is_err());
    let events = house.record.wait(2).await;
    assert!(events[1].refused.as_ref().unwrap().contains("HTTP/1.1"), "{events:?}");
}

#[tokio::test]
async fn commands_find_the_proxy_the_certificates_and_a_placeholder() {
    let house = House::new();
    let mut egress = with_secret(&["api.example"], "api.example");
    let entrance = house.open(&egress);
    let variables = entrance.door.variables();
    let value = |name: &str| {
        let mut found = variables.iter().filter(|(own, _)| own == name);
        let value = found.next().map(|(_, value)| value.as_str());
        assert!(found.next().is_none(), "{name} comes twice");
        value
    };
    assert_eq!(value("https_proxy"), Some("http://127.0.0.1:3128"));
    assert_eq!(value("HTTP_PROXY"), Some("http://127.0.0.1:3128"));
    assert_eq!(value("NO_PROXY"), Some("localhost,127.0.0.1,::1"));
    assert_eq!(value("SSL_CERT_FILE"), Some("/run/narthex/egress-roots.pem"));
    assert_eq!(value("NODE_EXTRA_CA_CERTS"), Some("/run/narthex/egress-ca.pem"));
    if let Ok(certificates) = entrance.door.certificates().await {
        let certificates = certificates.unwrap();
        assert_eq!(Some(&certificates.ca_pem), entrance.door.ca_pem().as_ref());
        assert!(certificates.bundle_pem.ends_with(&certificates.ca_pem));
        assert!(certificates.bundle_pem.len() > certificates.ca_pem.len());
    }
    entrance.door.close().await;

    egress.credentials[0].variable = Some("HTTPS_PROXY".to_owned());
    let error = house.try_open(&egress, house.options()).unwrap_err();
    assert!(error.to_string().contains("HTTPS_PROXY"), "{error}");
}

#[tokio::test]
async fn a_door_that_opens_anew_keeps_its_authority_and_its_placeholders() {
    let mut house = House::new();
    house.serve_tls("api.example", fine).await;
    house.serve("plain.example", 80, fine).await;
    let egress = with_secret(&["api.example", "plain.example"], "api.example");
    let first = house.open(&egress);
    let (kept, trusted, known) = (first.door.kept(), first.ca(), placeholder(&first));
    first.door.close().await;
    let open = |egress: &Egress, kept| {
        house.try_open(egress, Options { kept, ..house.options() }).unwrap()
    };
    let again = open(&egress, kept.clone());
    let mut stream = again.tls("api.example:443", "api.example", &trusted).await.unwrap();
    assert!(say(&mut stream, &get("api.example", "")).await.ends_with("fine"));
    // Not a byte of what commands were shown changes.
    assert_eq!((again.ca(), placeholder(&again)), (trusted.clone(), known.clone()));
    assert_eq!(again.door.kept(), kept);
    let answer = again.get(&format!("http://plain.example/?k={known}")).await;
    assert!(status(&answer) == 403 && answer.contains("placeholder of API_KEY"), "{answer}");
    // The same where this owner does not know the secret.
    let poor = open(&allow(&["plain.example"]), kept.clone());
    assert!(poor.door.kept().is_none());
    let answer = poor.get(&format!("http://plain.example/?k={known}")).await;
    assert!(status(&answer) == 403 && answer.contains("no credential for it"), "{answer}");

    let another = house.open(&egress);
    assert!(another.tls("api.example:443", "api.example", &trusted).await.is_err());
    let renewed = open(&egress, Some(stdx::Secret::new(b"no key".to_vec())));
    assert!(renewed.door.kept().is_some_and(|renewed| Some(renewed) != kept));
    let shown = format!("{:?}", Options { kept, ..house.options() });
    assert!(!shown.contains("110, 97, 114"), "{shown}");
}

#[tokio::test]
async fn what_cannot_be_used_is_found_before_there_is_a_neuron() {
    let mut egress = with_secret(&["api.example"], "api.example");
    assert_eq!(egress::check(&egress), Ok(()));
    egress.credentials[0].variable = Some("HTTPS_PROXY".to_owned());
    let error = egress::check(&egress).unwrap_err().to_string();
    assert!(error.contains("HTTPS_PROXY is set by the proxy itself"), "{error}");
    let error = egress::check(&allow(&["a.example", "https://b.example"])).unwrap_err().to_string();
    assert!(error.starts_with("egress.allow[1].host: "), "{error}");
}
