//! The service KV.

use prost::Message;
use ringway_rpc::Status;
use ringway_runtime as runtime;

use super::transaction::Answered;
use super::trouble::Effect;
use super::{Registry, change, failure, read, transaction};
use crate::etcd::api::etcdserverpb::{
    CompactionRequest, CompactionResponse, DeleteRangeRequest, DeleteRangeResponse, Kv, PutRequest,
    PutResponse, RangeRequest, RangeResponse, TxnRequest, TxnResponse,
};
use crate::limits;
use crate::store::{KeyRange, Revision, Store};

impl Kv for Registry {
    async fn range(&self, request: RangeRequest) -> Result<RangeResponse, Status> {
        read::check(&request)?;
        let range = KeyRange::from_wire(request.key.clone(), request.range_end.clone());
        self.read_range(&request, &range)
    }

    async fn put(&self, request: PutRequest) -> Result<PutResponse, Status> {
        change::check_put(&request)?;
        check_size(&request)?;
        let (mut response, header) =
            self.change(Effect::Adds, |store, _| change::put(store, request)).await?;
        response.header = header;
        Ok(response)
    }

    async fn delete_range(
        &self,
        request: DeleteRangeRequest,
    ) -> Result<DeleteRangeResponse, Status> {
        change::check_delete(&request)?;
        let (mut response, header) =
            self.change(Effect::Frees, |store, _| change::delete(store, request)).await?;
        response.header = header;
        Ok(response)
    }

    async fn txn(&self, request: TxnRequest) -> Result<TxnResponse, Status> {
        check_size(&request)?;
        transaction::check(&request)?;
        let effect = match transaction::effect(&request) {
            Some(effect) => effect,
            None => return self.read_transaction(request),
        };
        let run = |store: &mut Store, _| transaction::run(store, request);
        let (response, header) = self.change_and(effect, run, Answered::into_response).await?;
        Ok(TxnResponse { header, ..response })
    }

    async fn compact(&self, request: CompactionRequest) -> Result<CompactionResponse, Status> {
        let first = Revision(request.revision);
        let compact =
            |store: &mut Store, _| store.compact(first).map_err(failure::compacted_or_future);
        let ((), header) = self.change(Effect::Frees, compact).await?;
        while !self.state().store.remove_compacted() {
            runtime::yield_now().await;
        }
        Ok(CompactionResponse { header })
    }
}

impl Registry {
    /// Reads the keys of a range that a checked request asks for.
    pub(super) fn read_range(
        &self,
        request: &RangeRequest,
        range: &KeyRange,
    ) -> Result<RangeResponse, Status> {
        self.expire_leases();
        let (mut found, header) = {
            let state = self.state();
            let found = read::find(&state.store, request, range, state.visible())?;
            (found, self.header(&state))
        };
        if found.content_len() > limits::READ_BYTES_MAX {
            return Err(failure::too_much_read());
        }
        Ok(RangeResponse { header, ..found.into_response() })
    }

    /// Carries out a checked transaction that changes nothing, on what can be seen: for that nobody waits for the log.
    fn read_transaction(&self, request: TxnRequest) -> Result<TxnResponse, Status> {
        self.expire_leases();
        let (answered, header) = {
            let state = self.state();
            (transaction::read(&state.store, request, state.visible())?, self.header(&state))
        };
        Ok(TxnResponse { header, ..answered.into_response() })
    }
}

fn check_size(request: &impl Message) -> Result<(), Status> {
    let fits = request.encoded_len() <= limits::REQUEST_BYTES_MAX;
    if fits { Ok(()) } else { Err(failure::request_too_large()) }
}
