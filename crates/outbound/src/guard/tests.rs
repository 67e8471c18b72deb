//! Urls in every spelling, and names with every kind of answer.

use std::io;

use async_trait::async_trait;
use proptest::prelude::*;

use super::*;

/// Answers every name with the same addresses.
#[derive(Debug)]
struct Fixed(Vec<IpAddr>);

#[async_trait]
impl Resolve for Fixed {
    async fn resolve(&self, _: &str) -> io::Result<Vec<IpAddr>> {
        Ok(self.0.clone())
    }
}

fn guard(entries: &[&str]) -> Guard {
    Guard::new(entries.iter().map(|entry| entry.parse().unwrap()).collect())
}

fn blocked(error: Error) -> Blocked {
    match error {
        Error::Blocked(blocked) => *blocked,
        other => panic!("blocked, not {other}"),
    }
}

#[test]
#[allow(clippy::too_many_lines, reason = "a table")]
fn addresses_are_seen_in_every_spelling() {
    use AddressClass::*;
    for (url, class) in [
        ("http://127.0.0.1/", Loopback),
        ("http://127.0.0.1:8080/x?y#z", Loopback),
        ("HTTP://127.0.0.1/", Loopback),
        ("http:127.0.0.1", Loopback),
        ("http:/127.0.0.1", Loopback),
        ("http:////127.0.0.1/", Loopback),
        ("http:\\\\127.0.0.1\\x", Loopback),
        ("  http://127.0.0.1/  ", Loopback),
        ("ht\ntp://127.0.\t0.1/", Loopback),
        ("http://127.8.9.10/", Loopback),
        ("http://2130706433/", Loopback),
        ("http://0x7f000001/", Loopback),
        ("http://0X7F000001/", Loopback),
        ("http://0x7f.1/", Loopback),
        ("http://0x7f.0x0.0x0.0x1/", Loopback),
        ("http://0177.0.0.1/", Loopback),
        ("http://00000177.0.0.01/", Loopback),
        ("http://017700000001/", Loopback),
        ("http://127.1/", Loopback),
        ("http://127.0.1/", Loopback),
        ("http://127.0.0.1./", Loopback),
        ("http://2130706433./", Loopback),
        ("http://%31%32%37.0.0.1/", Loopback),
        ("http://127%2e0%2e0%2e1/", Loopback),
        ("http://127。0。0。1/", Loopback),
        ("http://\u{ff11}\u{ff12}\u{ff17}.\u{ff10}.\u{ff10}.\u{ff11}/", Loopback),
        ("http://①②⑦.⓪.⓪.①/", Loopback),
        ("http://[::1]/", Loopback),
        ("http://[0:0:0:0:0:0:0:1]/", Loopback),
        ("http://[::0.0.0.1]/", Loopback),
        ("http://[::ffff:127.0.0.1]/", Loopback),
        ("http://[::ffff:7f00:1]/", Loopback),
        ("http://[0:0:0:0:0:FFFF:7f00:0001]/", Loopback),
        ("http://localhost/", Loopback),
        ("http://LOCALHOST/", Loopback),
        ("http://localhost./", Loopback),
        ("http://%6cocalhost/", Loopback),
        ("http://\u{ff4c}\u{ff4f}calhost/", Loopback),
        ("http://ⓛocalhost/", Loopback),
        ("http://loc\u{ad}alhost/", Loopback),
        ("http://app.localhost:3000/", Loopback),
        ("http://0/", Unspecified),
        ("http://0.0.0.0/", Unspecified),
        ("http://0x0/", Unspecified),
        ("http://[::]/", Unspecified),
        ("http://10.1.2.3/", Private),
        ("http://167838211/", Private),
        ("http://192.168.257/", Private),
        ("http://172.16.0.1/", Private),
        ("http://[fc00::1]/", Private),
        ("http://[::ffff:10.0.0.1]/", Private),
        ("http://100.64.0.1/", Shared),
        ("http://169.254.1.1/", LinkLocal),
        ("http://[fe80::1]/", LinkLocal),
        ("http://169.254.169.254/latest/meta-data/", Metadata),
        ("http://0xa9fea9fe/", Metadata),
        ("http://2852039166/", Metadata),
        ("http://169.254.43518/", Metadata),
        ("http://[::ffff:a9fe:a9fe]/", Metadata),
        ("http://[fd00:ec2::254]/", Metadata),
        ("http://metadata.google.internal/computeMetadata/v1/", Metadata),
        ("http://METADATA.google.internal./", Metadata),
        ("http://[64:ff9b::7f00:1]/", Translated),
        ("http://[64:ff9b::a00:1]/", Translated),
        ("http://[64:ff9b:1::a00:1]/", Translated),
        ("http://[2002:7f00:1::]/", Translated),
        ("http://[2001:0:1:2:3:4:5:6]/", Translated),
        ("http://[::127.0.0.2]/", Translated),
        ("http://[fec0::1]/", SiteLocal),
        ("http://198.18.0.1/", Benchmark),
        ("http://192.0.2.1/", Documentation),
        ("http://[2001:db8::1]/", Documentation),
        ("http://240.0.0.1/", Reserved),
        ("http://224.0.0.1/", Multicast),
        ("http://[ff02::1]/", Multicast),
        ("http://255.255.255.255/", Broadcast),
        ("http://4294967295/", Broadcast),
        ("https://127.0.0.1/", Loopback),
    ] {
        let error = guard(&[]).check_url(url).expect_err(url);
        assert_eq!(blocked(error).class, class, "{url}");
    }
}

#[test]
fn what_is_no_url_of_the_web_is_refused() {
    for (url, reason) in [
        ("", "relative URL without a base"),
        ("example.com", "relative URL without a base"),
        ("/x", "relative URL without a base"),
        ("file:///etc/passwd", "only http and https are fetched"),
        ("ftp://example.com/", "only http and https are fetched"),
        ("gopher://127.0.0.1:6379/_x", "only http and https are fetched"),
        ("data:text/plain,x", "only http and https are fetched"),
        ("javascript:alert(1)", "only http and https are fetched"),
        ("ws://example.com/", "only http and https are fetched"),
        ("unix:/run/x.sock", "only http and https are fetched"),
        ("http://", "empty host"),
        ("http://:80/", "empty host"),
        ("http://./", "the host is no name"),
        ("http://a..example/", "the host is no name"),
        ("http://a*.localhost/", "the host is no name"),
        ("http://a!b.example/", "the host is no name"),
        ("http://10.0.0.1&.example/", "the host is no name"),
        ("http://example.com:0/", "there is no port 0"),
        ("http://example.com../", "the host is no name"),
        ("http://user@example.com/", "a name or password in a url is not sent; leave it out"),
        ("http://good@127.0.0.1/", "a name or password in a url is not sent; leave it out"),
        (
            "http://good.example:80@127.0.0.1/",
            "a name or password in a url is not sent; leave it out",
        ),
        ("http://:pw@example.com/", "a name or password in a url is not sent; leave it out"),
        ("http://example.com:65536/", "invalid port number"),
        ("http://example.com:-1/", "invalid port number"),
        ("http://256.256.256.256/", "invalid IPv4 address"),
        ("http://1.2.3.4.5/", "invalid IPv4 address"),
        ("http://0x100000000/", "invalid IPv4 address"),
        ("http://[::1/", "invalid IPv6 address"),
        ("http://[fe80::1%25eth0]/", "invalid IPv6 address"),
        ("http://[::ffff:0x7f.1]/", "invalid IPv6 address"),
        ("http://exa mple.com/", "invalid international domain name"),
        ("http://exa%00mple.com/", "invalid international domain name"),
        (
            "http://example.com%2f@127.0.0.1/",
            "a name or password in a url is not sent; leave it out",
        ),
        ("http://example.com%2f.127.0.0.1/", "invalid international domain name"),
        ("http://a%5c@b/", "a name or password in a url is not sent; leave it out"),
    ] {
        match guard(&["0.0.0.0/0", "::/0", "localhost"]).check_url(url) {
            Err(Error::Url { reason: said, .. }) => assert_eq!(said, reason, "{url:?}"),
            other => panic!("{url:?} gave {other:?}"),
        }
    }
    let long = format!("http://example.com/{}", "x".repeat(URL_BYTES_MAX));
    assert!(matches!(guard(&[]).check_url(&long), Err(Error::Url { .. })));
}

#[test]
fn messages_of_urls_keep_secrets() {
    for (url, shown) in [
        ("ftp://h/secret?key=secret", "read the url \"ftp://h\": only http and https are fetched"),
        (
            "http://user:secret@h/secret",
            "read the url \"http://…@h\": a name or password in a url is not sent; leave it out",
        ),
    ] {
        assert_eq!(guard(&[]).check_url(url).expect_err(url).to_string(), shown);
    }
}

#[test]
fn public_places_pass_and_lose_their_fragment() {
    for (url, passed) in [
        ("https://example.com/x?y=1#z", "https://example.com/x?y=1"),
        ("http://EXAMPLE.com:80", "http://example.com/"),
        ("http://example.com./", "http://example.com./"),
        ("http://bücher.example/", "http://xn--bcher-kva.example/"),
        ("http://8.8.8.8:8080/", "http://8.8.8.8:8080/"),
        ("http://0x08.8.2056/", "http://8.8.8.8/"),
        ("http://[2606:4700::1]/", "http://[2606:4700::1]/"),
        ("http://127.0.0.1.example.com/", "http://127.0.0.1.example.com/"),
        ("http://example.com/@127.0.0.1/", "http://example.com/@127.0.0.1/"),
    ] {
        assert_eq!(guard(&[]).check_url(url).expect(url).as_str(), passed);
    }
}

#[test]
fn settings_open_places_port_by_port() {
    let open = guard(&["127.0.0.1:8080", "localhost:9090", "10.0.0.0/8"]);
    for url in [
        "http://127.0.0.1:8080/",
        "http://2130706433:8080/",
        "http://[::ffff:127.0.0.1]:8080/",
        "http://localhost:9090/",
        "http://10.9.8.7/",
        "https://10.9.8.7:8443/",
    ] {
        assert!(open.check_url(url).is_ok(), "{url}");
    }
    for url in [
        "http://127.0.0.1:8081/",
        "http://127.0.0.1/",
        "http://127.0.0.2:8080/",
        "http://localhost:8080/",
        "http://[::1]:8080/",
        "http://[64:ff9b::7f00:1]:8080/",
    ] {
        assert!(open.check_url(url).is_err(), "{url}");
    }
}

#[test]
fn refusals_say_what_would_open_the_place() {
    let said = |url: &str| guard(&[]).check_url(url).expect_err(url).to_string();
    assert_eq!(
        said("http://127.1:8080/"),
        "refused to connect to 127.0.0.1:8080: it is a loopback address; to allow it, add \
         \"127.0.0.1:8080\" to allow in [network] of the settings"
    );
    assert_eq!(
        said("http://[::1]/"),
        "refused to connect to [::1]:80: it is a loopback address; to allow it, add \
         \"[::1]:80\" to allow in [network] of the settings"
    );
    assert_eq!(
        said("https://localhost/"),
        "refused to connect to localhost:443: it is a loopback address; to allow it, add \
         \"localhost:443\" to allow in [network] of the settings"
    );
    assert_eq!(
        said("http://224.0.0.1/"),
        "refused to connect to 224.0.0.1:80: it is a multicast address, which no setting allows"
    );
}

#[tokio::test]
async fn one_forbidden_address_refuses_the_whole_answer() {
    let mixed = Fixed(vec!["8.8.8.8".parse().unwrap(), "10.0.0.1".parse().unwrap()]);
    let error = guard(&[]).addresses("mixed.example", 80, &mixed).await.expect_err("mixed");
    assert_eq!(
        error.to_string(),
        "refused to connect to mixed.example:80: the name resolves to 10.0.0.1, a private \
         address; to allow it, add \"mixed.example:80\" to allow in [network] of the settings"
    );
    let opened = guard(&["mixed.example"]).addresses("Mixed.Example.", 80, &mixed).await;
    let expected = ["8.8.8.8:80".parse().unwrap(), "10.0.0.1:80".parse().unwrap()];
    assert_eq!(opened, Ok(expected.to_vec()));
    assert!(guard(&["mixed.example:81"]).addresses("mixed.example", 80, &mixed).await.is_err());
}

#[tokio::test]
async fn empty_and_huge_answers_are_refused() {
    for answer in [Vec::new(), vec!["8.8.8.8".parse().unwrap(); ADDRESSES_MAX + 1]] {
        let found = guard(&[]).addresses("x.example", 80, &Fixed(answer)).await;
        assert!(matches!(found, Err(Error::Lookup { .. })), "{found:?}");
    }
}

#[tokio::test]
async fn what_is_suggested_opens_the_place() {
    for address in [
        "127.0.0.1",
        "10.0.0.1",
        "100.64.0.1",
        "169.254.169.254",
        "169.254.1.1",
        "fd00:ec2::254",
        "fe80::1",
        "fec0::1",
        "192.0.2.1",
        "64:ff9b::7f00:1",
        "2002:7f00:1::",
        "4000::1",
    ] {
        let address: IpAddr = address.parse().unwrap();
        let resolver = Fixed(vec![address]);
        let literal = match address {
            IpAddr::V4(address) => address.to_string(),
            IpAddr::V6(address) => format!("[{address}]"),
        };
        for host in [literal.as_str(), "a.example"] {
            let error = guard(&[]).addresses(host, 81, &resolver).await.expect_err(host);
            let entry = blocked(error).opened_by().expect(host);
            let opened = guard(&[&entry]).addresses(host, 81, &resolver).await;
            assert_eq!(opened, Ok(vec![SocketAddr::new(address, 81)]), "{host} by {entry}");
        }
    }
}

proptest! {
    /// However an address of IPv4 is spelled, it is judged as itself.
    #[test]
    fn spellings_of_an_address_are_judged_alike(bits in any::<u32>(), form in 0..6) {
        let [a, b, c, d] = bits.to_be_bytes();
        let low = bits & 0xff_ffff;
        let spelled = match form {
            0 => format!("{bits}"),
            1 => format!("{bits:#x}"),
            2 => format!("0{bits:o}"),
            3 => format!("0{a:o}.{b:#x}.{c}.{d}"),
            4 => format!("{a}.{low}"),
            _ => format!("[::ffff:{a}.{b}.{c}.{d}]"),
        };
        let checked = guard(&[]).check_url(&format!("http://{spelled}/"));
        let is_public = classify(IpAddr::from([a, b, c, d])) == AddressClass::Public;
        prop_assert_eq!(checked.is_ok(), is_public, "{}", spelled);
    }
}
