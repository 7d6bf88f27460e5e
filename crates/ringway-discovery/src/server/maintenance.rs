//! The services Maintenance, Cluster and Auth, as far as clients ask them.

use ringway_rpc::Status;

use super::durable::LogState;
use super::{Registry, failure};
use crate::etcd::api::etcdserverpb::{
    Auth, AuthenticateRequest, AuthenticateResponse, Cluster, Maintenance, Member,
    MemberListRequest, MemberListResponse, ResponseHeader, StatusRequest, StatusResponse,
};
use crate::limits;

impl Maintenance for Registry {
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
        let state = self.state();
        let member = Member {
            id: self.shared.ids.member,
            name: "default".to_owned(), // as that of an etcd that was given none
            peer_ur_ls: state.urls.clone(),
            client_ur_ls: state.urls.clone(),
            is_learner: false,
        };
        // Members have no revision in etcd.
        let header = self.header(&state).map(|header| ResponseHeader { revision: 0, ..header });
        Ok(MemberListResponse { header, members: vec![member] })
    }
}

impl Auth for Registry {
    async fn authenticate(&self, _: AuthenticateRequest) -> Result<AuthenticateResponse, Status> {
        Err(failure::authentication_disabled())
    }
}
