//! Tasks that make more tasks, done by several threads until none is left.

use std::sync::{Condvar, Mutex, PoisonError};

use crate::error::Result;

#[derive(Debug)]
pub(super) struct Queue<T> {
    state: Mutex<State<T>>,
    changed: Condvar,
}

#[derive(Debug)]
struct State<T> {
    /// The newest task is done first, so that a deep tree is finished before a wide one grows.
    tasks: Vec<T>,
    busy: usize,
    is_failed: bool,
}

impl<T> Default for Queue<T> {
    fn default() -> Self {
        let state = State { tasks: Vec::new(), busy: 0, is_failed: false };
        Self { state: Mutex::new(state), changed: Condvar::new() }
    }
}

/// Ends the wait of the others however a task ends, by a panic as well.
struct Busy<'q, T> {
    queue: &'q Queue<T>,
    is_done: bool,
}

impl<T> Drop for Busy<'_, T> {
    fn drop(&mut self) {
        let mut state = self.queue.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.busy -= 1;
        state.is_failed |= !self.is_done;
        if state.busy == 0 || state.is_failed {
            self.queue.changed.notify_all();
        }
    }
}

impl<T> Queue<T> {
    pub(super) fn push(&self, task: T) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).tasks.push(task);
        self.changed.notify_one();
    }

    /// Does tasks until there are none and nobody makes any, or until one failed.
    pub(super) fn work(&self, mut perform: impl FnMut(T, &Self) -> Result<()>) -> Result<()> {
        while let Some(task) = self.take() {
            let mut busy = Busy { queue: self, is_done: false };
            let done = perform(task, self);
            busy.is_done = done.is_ok();
            drop(busy);
            done?;
        }
        Ok(())
    }

    fn take(&self) -> Option<T> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if state.is_failed {
                return None;
            }
            if let Some(task) = state.tasks.pop() {
                state.busy += 1;
                return Some(task);
            }
            if state.busy == 0 {
                return None;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}
