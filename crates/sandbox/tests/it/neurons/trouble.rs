//! What cannot be read or removed costs nobody else his neuron, and no neuron its files.

use std::fs;

use driver_api::{NeuronDriver, NeuronError, NeuronState};
use protocol::NeuronId;

use super::{BOTH, Land, spec};

#[tokio::test]
async fn a_neuron_that_cannot_be_looked_at_is_neither_replaced_nor_in_the_way() {
    for driver in BOTH {
        let land = Land::new();
        land.create(driver, "work").await;
        land.says("work", "echo mine > ~/kept").await;
        land.neurons.stop(&NeuronId::new("work")).await.unwrap();
        let (state, aside) = (land.of("work").join("state.json"), land.home().join("aside"));
        fs::rename(&state, &aside).unwrap();
        // Reading a folder fails, as reading does where there is no descriptor left.
        fs::create_dir(&state).unwrap();

        let refused = land.neurons.create(spec(driver, "work")).await.unwrap_err();
        assert!(matches!(refused, NeuronError::Fault(_)), "{refused}");
        land.create(driver, "other").await;
        let listed = land.neurons.list().await.unwrap();
        let names: Vec<&str> = listed.iter().map(|info| info.id.as_str()).collect();
        assert_eq!(names, ["other"], "the others are still told of");

        fs::remove_dir(&state).unwrap();
        fs::rename(&aside, &state).unwrap();
        assert_eq!(land.info("work").await.unwrap().state, NeuronState::Stopped);
        land.neurons.start(&NeuronId::new("work")).await.unwrap();
        assert_eq!(land.says("work", "cat ~/kept").await, "mine\n");
    }
}

#[tokio::test]
async fn lists_go_on_while_neurons_come_and_go() {
    let land = Land::new();
    let over = std::sync::atomic::AtomicBool::new(false);
    let churn = async {
        for _ in 0..30 {
            land.create(NeuronDriver::Host, "passing").await;
            land.destroy("passing").await.unwrap();
        }
        over.store(true, std::sync::atomic::Ordering::Relaxed);
    };
    let look = async {
        while !over.load(std::sync::atomic::Ordering::Relaxed) {
            land.neurons.list().await.unwrap();
            tokio::task::yield_now().await;
        }
    };
    tokio::join!(churn, look);
}

/// A disk that cannot be mounted any more is kept, and its neuron does not start without it.
#[tokio::test]
async fn a_disk_that_cannot_be_mounted_again_is_not_given_up() {
    let land = Land::new();
    let mut wanted = spec(NeuronDriver::Namespace, "disk");
    wanted.limits.disk_bytes = Some(64 << 20);
    let made = land.neurons.create(wanted).await.unwrap();
    let image = land.of("disk").join("disk.img");
    if !image.exists() {
        let reasons = made.isolation.unwrap().reasons;
        assert!(reasons.iter().any(|reason| reason.contains("in memory")), "{reasons:?}");
        return;
    }
    land.says("disk", "echo mine > ~/kept").await;
    let id = NeuronId::new("disk");
    land.neurons.stop(&id).await.unwrap();
    let kept = fs::read(&image).unwrap();
    fs::write(&image, vec![0; kept.len()]).unwrap();
    let refused = land.neurons.start(&id).await.unwrap_err().to_string();
    assert!(refused.contains("cannot be mounted"), "{refused}");
    assert_eq!(land.info("disk").await.unwrap().state, NeuronState::Stopped);
    fs::write(&image, kept).unwrap();
    land.neurons.start(&id).await.unwrap();
    assert_eq!(land.says("disk", "cat ~/kept").await, "mine\n");
}
