//! Requests a second of the cheap endpoints.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::{Ground, House, all, float};
use crate::program::Subject;
use crate::served::client::{Client, count_of, get, post, text_of};
use crate::served::script::Script;
use crate::summary::{ms, percentile};
use crate::table::Row;

/// How long one endpoint is asked in one round.
const ASKED: Duration = Duration::from_millis(400);

/// How many sessions are open.
const SESSIONS: usize = 50;

/// How many messages the transcript has at least.
const MESSAGES: usize = 100;

/// Bytes of an answer where there is no program whose answers could be copied.
const INVENTED_BYTES: usize = 300;

/// What is asked.
struct Endpoint {
    name: &'static str,
    /// The requests of the nth connection, in turns.
    requests: fn(&[String], usize) -> Vec<Vec<u8>>,
    /// Whether the last answer is right.
    check: fn(&Value) -> Result<bool>,
}

const ENDPOINTS: [Endpoint; 5] = [
    Endpoint {
        name: "GET /v1/health",
        requests: |_, _| vec![get("/v1/health")],
        check: |body| Ok(text_of(body, "/status")? == "ok"),
    },
    Endpoint {
        name: "GET /v1/sessions/:id",
        requests: |sessions, at| vec![get(&format!("/v1/sessions/{}", session(sessions, at)))],
        check: |body| Ok(text_of(body, "/state")? == "idle"),
    },
    Endpoint {
        name: "GET /v1/sessions with 50 of them",
        requests: |_, _| vec![get("/v1/sessions")],
        check: |body| Ok(count_of(body, "/sessions")? == SESSIONS),
    },
    Endpoint {
        name: "GET …/messages?limit=100",
        requests: |sessions, _| {
            vec![get(&format!("/v1/sessions/{}/messages?limit={MESSAGES}", session(sessions, 0)))]
        },
        check: |body| Ok(count_of(body, "/messages")? == MESSAGES),
    },
    Endpoint {
        name: "POST …/mode, durable",
        requests: |sessions, at| {
            let path = format!("/v1/sessions/{}/mode", session(sessions, at));
            ["ask", "full-auto"].map(|mode| post(&path, &json!({"mode": mode}))).to_vec()
        },
        check: |body| Ok(["ask", "full-auto"].contains(&text_of(body, "/mode")?.as_str())),
    },
];

fn session(sessions: &[String], at: usize) -> &str {
    sessions.get(at).map_or("none", String::as_str)
}

#[derive(Default)]
struct Figures {
    per_s: Vec<f64>,
    p99_ms: Vec<f64>,
}

pub(super) async fn rows(ground: &Ground<'_>) -> Result<Vec<Row>> {
    let place = ground.place()?;
    let still = ground.start(&Subject::Floor, &place)?;
    let mut house = match ground.narthex() {
        Some(narthex) => Some(House::open(ground, narthex).await?),
        None => None,
    };
    let mut sessions = Vec::new();
    if let Some(house) = &mut house {
        sessions = house.create(SESSIONS).await?;
        let script = Script { steps: MESSAGES.div_ceil(2), ..ground.script() };
        house.run(session(&sessions, 0), &script).await?;
    }
    let mut rows = Vec::new();
    for endpoint in &ENDPOINTS {
        for connections in [1, 16] {
            let requests: Vec<_> =
                (0..connections).map(|at| (endpoint.requests)(&sessions, at)).collect();
            let mut bytes = INVENTED_BYTES;
            if let (Some(house), Some(request)) =
                (&mut house, requests.first().and_then(|of| of.first()))
            {
                let reply = house.client.exchange(request).await?;
                bytes = reply.body.len();
            }
            let constant = vec![vec![get(&format!("/constant/{bytes}"))]; connections];
            let (mut floor, mut narthex) = (Figures::default(), Figures::default());
            for _ in 0..ground.rounds() {
                floor.add(load(still.address, &constant, None).await?)?;
                if let Some(house) = &house {
                    let load = load(house.served.address, &requests, Some(endpoint.check)).await;
                    narthex.add(load.context(endpoint.name)?)?;
                }
            }
            let over = if connections == 1 { "1 connection" } else { "16 connections" };
            rows.push(
                Row::new(format!("{} over {over}, requests a second", endpoint.name), "")
                    .floor(&floor.per_s)
                    .narthex(&narthex.per_s),
            );
            rows.push(
                Row::new("the same, p99 ms", "").floor(&floor.p99_ms).narthex(&narthex.p99_ms),
            );
        }
    }
    still.stop()?;
    if let Some(house) = house {
        house.stop()?;
    }
    Ok(rows)
}

impl Figures {
    fn add(&mut self, (per_s, lengths): (f64, Vec<f64>)) -> Result<()> {
        self.per_s.push(per_s);
        self.p99_ms.push(percentile(&lengths, 99).context("nothing was answered")?);
        Ok(())
    }
}

type Check = fn(&Value) -> Result<bool>;

/// Asks over as many connections as there are lists of requests. Returns how many requests were
/// answered a second, and how long each took in milliseconds.
async fn load(
    address: SocketAddr,
    requests: &[Vec<Vec<u8>>],
    check: Option<Check>,
) -> Result<(f64, Vec<f64>)> {
    let mut clients = Vec::new();
    for requests in requests {
        clients.push((Client::connect(address).await?, requests.clone()));
    }
    let mut tasks = JoinSet::new();
    let begun = Instant::now();
    for (client, requests) in clients {
        tasks.spawn(ask(client, requests, begun + ASKED, check));
    }
    let lengths: Vec<f64> = all(tasks).await?.concat();
    Ok((float(lengths.len()) / begun.elapsed().as_secs_f64(), lengths))
}

async fn ask(
    mut client: Client,
    requests: Vec<Vec<u8>>,
    until: Instant,
    check: Option<Check>,
) -> Result<Vec<f64>> {
    let mut lengths = Vec::new();
    let mut last = None;
    for request in requests.iter().cycle() {
        let begun = Instant::now();
        if begun >= until {
            break;
        }
        let reply = client.exchange(request).await?;
        lengths.push(ms(begun.elapsed()));
        if reply.status != 200 {
            bail!("status {}: {}", reply.status, String::from_utf8_lossy(&reply.body));
        }
        last = Some(reply);
    }
    if let (Some(check), Some(last)) = (check, last) {
        let body = last.json(200)?;
        if !check(&body)? {
            bail!("a wrong answer: {body}");
        }
    }
    Ok(lengths)
}
