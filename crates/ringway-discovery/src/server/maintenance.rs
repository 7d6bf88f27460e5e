//! The services Maintenance, Cluster and Auth, as far as clients ask them.

use ringway_rpc::{Context, Status};
use ringway_runtime as runtime;

use super::durable::LogState;
use super::member_urls::urls_told;
use super::trouble::Trouble;
use super::{Registry, State, failure};
use crate::etcd::api::etcdserverpb::alarm_request::AlarmAction;
use crate::etcd::api::etcdserverpb::{
    AlarmMember, AlarmRequest, AlarmResponse, AlarmType, Auth, AuthRoleListRequest,
    AuthRoleListResponse, AuthStatusRequest, AuthStatusResponse, AuthUserListRequest,
    AuthUserListResponse, AuthenticateRequest, AuthenticateResponse, Cluster, DefragmentRequest,
    DefragmentResponse, HashKvRequest, HashKvResponse, HashRequest, HashResponse, Maintenance,
    Member, MemberListRequest, MemberListResponse, ResponseHeader, StatusRequest, StatusResponse,
};
use crate::limits;
use crate::store::{KeysHash, ReadError, Revision};

impl Maintenance for Registry {
    async fn alarm(&self, request: AlarmRequest) -> Result<AlarmResponse, Status> {
        if request.action() == AlarmAction::Activate {
            return Err(failure::alarms_not_taken());
        }
        let state = self.state();
        let (member_id, alarm) = (self.shared.ids.member, AlarmType::Nospace);
        let concerns = |asked: &AlarmRequest| {
            [0, member_id].contains(&asked.member_id)
                && [AlarmType::None, alarm].contains(&asked.alarm())
        };
        // It goes by itself when the disk has room: nobody can clear it.
        let is_told = is_full(&state) && request.action() == AlarmAction::Get && concerns(&request);
        let alarm = AlarmMember { member_id, alarm: alarm.into() };
        Ok(AlarmResponse {
            header: self.header(&state),
            alarms: Vec::from_iter(is_told.then_some(alarm)),
        })
    }

    /// A store in memory has no holes.
    async fn defragment(&self, _: DefragmentRequest) -> Result<DefragmentResponse, Status> {
        Ok(DefragmentResponse { header: None })
    }

    async fn hash(&self, _: HashRequest) -> Result<HashResponse, Status> {
        let HashKvResponse { header, hash, .. } = self.hash_at(0).await?;
        Ok(HashResponse { header, hash })
    }

    async fn hash_kv(&self, request: HashKvRequest) -> Result<HashKvResponse, Status> {
        self.hash_at(request.revision).await
    }

    async fn status(&self, _: StatusRequest) -> Result<StatusResponse, Status> {
        let state = self.state();
        let bytes = i64::try_from(state.store.bytes()).unwrap_or(i64::MAX);
        let revision = u64::try_from(state.visible().0).unwrap_or(0);
        let failure = state.log.as_ref().and_then(LogState::failure);
        let errors = failure.map(|failure| failure.message().to_owned()).into_iter().collect();
        Ok(StatusResponse {
            header: self.header(&state),
            version: limits::API_VERSION.to_owned(),
            db_size: bytes,
            db_size_in_use: bytes,
            leader: self.shared.ids.member,
            raft_index: revision,
            raft_applied_index: revision,
            raft_term: limits::RAFT_TERM,
            errors,
            is_learner: false,
        })
    }
}

impl Cluster for Registry {
    async fn member_list(&self, _: MemberListRequest) -> Result<MemberListResponse, Status> {
        let reached = Context::current().and_then(|it| it.peer().local_address().cloned());
        let state = self.state();
        let urls = urls_told(&state.urls, reached.as_ref());
        let member = Member {
            id: self.shared.ids.member,
            name: "default".to_owned(), // as that of an etcd that was given none
            peer_ur_ls: urls.clone(),
            client_ur_ls: urls,
            is_learner: false,
        };
        // Members have no revision in etcd.
        let header = self.header(&state).map(|header| ResponseHeader { revision: 0, ..header });
        Ok(MemberListResponse { header, members: vec![member] })
    }
}

impl Auth for Registry {
    async fn auth_status(&self, _: AuthStatusRequest) -> Result<AuthStatusResponse, Status> {
        let header = self.header(&self.state());
        Ok(AuthStatusResponse { header, enabled: false, auth_revision: limits::AUTH_REVISION })
    }

    async fn user_list(&self, _: AuthUserListRequest) -> Result<AuthUserListResponse, Status> {
        Ok(AuthUserListResponse { header: self.header(&self.state()), users: Vec::new() })
    }

    async fn role_list(&self, _: AuthRoleListRequest) -> Result<AuthRoleListResponse, Status> {
        Ok(AuthRoleListResponse { header: self.header(&self.state()), roles: Vec::new() })
    }

    async fn authenticate(&self, _: AuthenticateRequest) -> Result<AuthenticateResponse, Status> {
        Err(failure::authentication_disabled())
    }
}

impl Registry {
    /// The hash of the keys as they are at a revision, or now if that is 0. Others use the registry meanwhile.
    async fn hash_at(&self, revision: i64) -> Result<HashKvResponse, Status> {
        let (header, mut hash) = {
            let state = self.state();
            let present = state.visible();
            let at = if revision > 0 { Revision(revision) } else { present };
            if at > present {
                return Err(failure::compacted_or_future(ReadError::Future));
            }
            (self.header(&state), KeysHash::new(at, state.store.last_compaction()))
        };
        loop {
            let is_whole = self.state().store.hash_some(&mut hash);
            if is_whole.map_err(failure::compacted_or_future)? {
                break;
            }
            runtime::yield_now().await;
        }
        let compact_revision = hash.compacted().0;
        Ok(HashKvResponse { header, hash: hash.finish(), compact_revision })
    }
}

/// Whether the disk is full.
fn is_full(state: &State) -> bool {
    state.log.as_ref().and_then(LogState::trouble).is_some_and(Trouble::may_pass)
}
