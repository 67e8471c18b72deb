//! The engine against a memory store, a scripted model and a virtual clock.

mod crash;
mod house;
mod lifecycle;
mod outage;
mod turns;
