//! The server as its clients see it: whole answers over HTTP, and the real kubectl.
//!
//! What is expected here was recorded from a real kube-apiserver: status, reason, code and message.

mod client;
mod custom;
mod discovery;
mod faults;
mod kubectl;
mod reads;
mod watches;
mod writes;
