//! Methods with several parameters, over every protocol that carries one message.

use ringway_rpc::testing::{TestServer, simulate};
use ringway_rpc::{Context, Sink, Status, service};

#[service(package = "math.v1", crate = "ringway_rpc")]
trait Math {
    async fn subtract(&self, minuend: i64, subtrahend: i64) -> Result<i64, Status>;
    async fn join(
        &self,
        context: Context,
        a: String,
        b: Vec<u8>,
        c: Option<u64>,
    ) -> Result<String, Status>;
    async fn count(&self, from: u64, to: u64, numbers: Sink<u64>) -> Result<(), Status>;
}

struct Plain;

impl Math for Plain {
    async fn subtract(&self, minuend: i64, subtrahend: i64) -> Result<i64, Status> {
        Ok(minuend - subtrahend)
    }

    async fn join(
        &self,
        context: Context,
        a: String,
        b: Vec<u8>,
        c: Option<u64>,
    ) -> Result<String, Status> {
        Ok(format!("{} {a} {b:?} {c:?}", context.method().short_name()))
    }

    async fn count(&self, from: u64, to: u64, mut numbers: Sink<u64>) -> Result<(), Status> {
        for number in from..to {
            numbers.send(number).await?;
        }
        Ok(())
    }
}

#[test]
fn several_values_are_one_message() {
    simulate(11, async {
        let server = TestServer::start(MathServer::new(Plain))?;
        let math = MathClient::connect(server.address())?;
        assert_eq!(math.subtract(42, 23).await?, 19);
        assert_eq!(math.join("x".into(), vec![1, 2], None).await?, "Join x [1, 2] None");
        let mut numbers = math.count(3, 5);
        let mut found = Vec::new();
        while let Some(number) = numbers.next().await? {
            found.push(number);
        }
        assert_eq!(found, [3, 4]);
        Ok(())
    })
    .expect("calls succeed");
}
