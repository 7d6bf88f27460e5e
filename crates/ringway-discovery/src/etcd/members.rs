//! The members of a cluster, and the requests to them.
//!
//! All tasks of a registry ask the same member, until it fails. Then they ask the next one; a member that has failed
//! is left alone for a while that grows.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use ringway_rpc::{CallOptions, Client, Status};
use ringway_runtime as runtime;

use super::config::EtcdConfig;
use super::failure::{Failure, Fault};
use super::member::Member;
use super::token::{self, Token};

/// The members of a cluster.
pub(super) struct Members {
    pub(super) config: EtcdConfig,
    state: Mutex<MembersState>,
}

struct MembersState {
    members: Vec<Member>,
    /// The member that is asked.
    current: usize,
    token: Token,
    /// Counts the tokens, so that several requests with an old one ask for one new token.
    tokens: u64,
}

/// The way to one member, with all that its calls need.
#[derive(Clone)]
pub(super) struct Channel {
    pub(super) client: Client,
    /// Options of calls without a timeout.
    options: CallOptions,
    timeout: Duration,
    at: usize,
    /// The number of the client among those of its member.
    number: u64,
    pub(super) name: String,
    token: u64,
}

impl Channel {
    /// The client for requests that are answered at once.
    pub(super) fn unary(&self) -> Client {
        self.client.with(self.options.clone().timeout(self.timeout))
    }

    /// The client for streams without end.
    pub(super) fn stream(&self) -> Client {
        self.client.with(self.options.clone().no_timeout())
    }
}

impl Members {
    /// The members of a configuration. Each process begins with another member.
    pub(super) fn new(config: EtcdConfig) -> Self {
        let members: Vec<_> = config.members.iter().cloned().map(Member::new).collect();
        let current = fastrand::usize(..members.len());
        let state = MembersState { members, current, token: Token::Unknown, tokens: 0 };
        Self { config, state: Mutex::new(state) }
    }

    /// Makes one request to the member that is most likely to answer, after the time for which it has to be left alone.
    /// A request whose token is not accepted is made again with a new one.
    pub(super) async fn ask<T>(
        &self,
        request: impl AsyncFn(&Channel) -> Result<T, ringway_rpc::Status>,
    ) -> Result<T, Failure> {
        let mut renewals = 0;
        loop {
            let channel = self.channel().await?;
            let failure = match request(&channel).await {
                Ok(answer) => {
                    self.worked(&channel);
                    return Ok(answer);
                }
                Err(status) => Failure::of_call(&status, &channel.name),
            };
            self.failed(&channel, &failure);
            if failure.fault != Fault::Token || renewals == TOKEN_RENEWALS_MAX {
                return Err(failure);
            }
            renewals += 1;
        }
    }

    /// The way to the member that is asked now, with a token, after the time for which it has to be left alone.
    pub(super) async fn channel(&self) -> Result<Channel, Failure> {
        let wait = self.turn_to_best(runtime::now());
        if let Some(until) = wait {
            runtime::sleep_until(until).await;
        }
        let (at, name, client) = {
            let mut state = self.lock();
            let at = state.current;
            let member = &mut state.members[at];
            let client = member.client(&self.config);
            (at, member.name().to_owned(), client)
        };
        let (client, number) = client.map_err(|status| Failure::of_call(&status, &name))?;
        let mut channel = Channel {
            client,
            options: CallOptions::new().metadata("hasleader", "true"),
            timeout: self.config.request_timeout,
            at,
            number,
            name,
            token: 0,
        };
        self.add_token(&mut channel).await?;
        Ok(channel)
    }

    /// Notes that a member has answered.
    pub(super) fn worked(&self, channel: &Channel) {
        let mut state = self.lock();
        state.members[channel.at].worked(channel.number);
    }

    /// Notes a failure: its member is left alone for a while, or its token is forgotten.
    pub(super) fn failed(&self, channel: &Channel, failure: &Failure) {
        match failure.fault {
            Fault::Member => {
                let now = runtime::now();
                let mut state = self.lock();
                let client = state.members[channel.at].failed(channel.number, now);
                drop(state);
                drop(client);
            }
            Fault::Token => self.forget_token(channel),
            Fault::Request | Fault::NoLease => {}
        }
    }

    /// Has the next request ask for a new token, unless there is one already.
    pub(super) fn forget_token(&self, channel: &Channel) {
        let mut state = self.lock();
        if state.tokens == channel.token {
            state.token = Token::Unknown;
        }
    }

    /// Turns to another member if the present one fails. Returns how long it has to be left alone.
    fn turn_to_best(&self, now: Instant) -> Option<Instant> {
        let mut state = self.lock();
        let (count, current) = (state.members.len(), state.current);
        if state.members[current].is_failing() {
            let others = (1..=count).map(|step| (current + step) % count);
            let soonest = others.min_by_key(|at| state.members[*at].retry_at());
            state.current = soonest.unwrap_or(current);
        }
        state.members[state.current].retry_at().filter(|at| *at > now)
    }

    async fn add_token(&self, channel: &mut Channel) -> Result<(), Failure> {
        let (known, number) = {
            let state = self.lock();
            (state.token.clone(), state.tokens)
        };
        let (token, number) = match known {
            Token::Unknown => match self.ask_token(channel.client.clone()).await {
                Ok(token) => (token.clone(), self.keep_token(token)),
                Err(status) => {
                    let mut failure = Failure::of_call(&status, &channel.name);
                    if failure.fault == Fault::Token {
                        failure.fault = Fault::Request;
                    }
                    self.failed(channel, &failure);
                    return Err(failure);
                }
            },
            known => (known, number),
        };
        channel.token = number;
        if let Token::Known(token) = token {
            let options = std::mem::take(&mut channel.options);
            channel.options = options.metadata("token", token);
        }
        Ok(())
    }

    async fn ask_token(&self, client: Client) -> Result<Token, Status> {
        token::ask(client, self.config.user.as_ref(), self.config.request_timeout).await
    }

    fn keep_token(&self, token: Token) -> u64 {
        let mut state = self.lock();
        state.token = token;
        state.tokens += 1;
        state.tokens
    }

    /// No code of a user runs under the lock, so what a poisoned one holds is sound.
    fn lock(&self) -> MutexGuard<'_, MembersState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Tokens that one request may need: the rights of users may change while one is asked for.
const TOKEN_RENEWALS_MAX: u32 = 3;
