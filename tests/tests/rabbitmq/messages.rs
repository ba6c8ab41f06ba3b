//! How many AMQP frames a run costs.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anarchon::run::{Ending, Finish, RunKey, SlotOutcome};
use anarchon::{Backend as _, RabbitMqBackend};
use tests::LONG;
use tests::backends::instance;
use tests::servers::{RabbitMq, RabbitMqVersion};

use crate::{again, block_on, claim, connected, outcome};

/// Passes connections on to a broker, and counts their frames, except heartbeats: those of the client, and the broker's.
#[derive(Default)]
struct Frames([AtomicU64; 2]);

/// What the client says before its first frame.
const HELLO: usize = 8;
const HEARTBEAT: u8 = 8;

impl Frames {
    fn before(broker: SocketAddr) -> (SocketAddr, Arc<Self>) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let (address, frames) = (listener.local_addr().expect("an address"), Arc::<Self>::default());
        let counting = Arc::clone(&frames);
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let broker = TcpStream::connect(broker).expect("a broker");
                for stream in [&client, &broker] {
                    stream.set_nodelay(true).expect("a connection that is open");
                }
                let back = (broker.try_clone().expect("a handle"), client.try_clone().expect("a handle"));
                for (way, hello, (from, to)) in [(0, HELLO, (client, broker)), (1, 0, back)] {
                    let counting = Arc::clone(&counting);
                    // It ends with the connection.
                    std::thread::spawn(move || counting.pass(way, hello, from, to));
                }
            }
        });
        (address, frames)
    }

    fn pass(&self, way: usize, hello: usize, mut from: impl Read, mut to: impl Write) -> std::io::Result<()> {
        let mut bytes = vec![0; hello];
        from.read_exact(&mut bytes)?;
        to.write_all(&bytes)?;
        loop {
            // Its type, its channel, and the size of what follows, before a last byte.
            let mut head = [0; 7];
            from.read_exact(&mut head)?;
            let size = u32::from_be_bytes([head[3], head[4], head[5], head[6]]);
            bytes.resize(usize::try_from(size).expect("a size") + 1, 0);
            from.read_exact(&mut bytes)?;
            if head[0] != HEARTBEAT {
                self.0[way].fetch_add(1, Ordering::Relaxed);
            }
            to.write_all(&[&head[..], &bytes].concat())?;
        }
    }

    fn now(&self) -> [u64; 2] {
        [0, 1].map(|way| self.0[way].load(Ordering::Relaxed))
    }
}

#[test]
fn a_win_is_five_frames_and_so_is_a_loss_and_an_end_is_three() {
    for version in RabbitMqVersion::ALL {
        let Some(server) = RabbitMq::shared(version) else { return };
        let (address, frames) = Frames::before(server.address());
        block_on(async {
            let prefix = RabbitMq::prefix();
            let url = server.url_through(address);
            let store = connected(RabbitMqBackend::new(url).prefix(&prefix)).await;
            let other = connected(RabbitMqBackend::new(server.url()).prefix(&prefix)).await;
            let expect = async |what: &str, before: [u64; 2], client: u64, broker: u64| {
                let since = || [0, 1].map(|way| frames.now()[way] - before[way]);
                let began = std::time::Instant::now();
                // The last of them may be on their way.
                while since() != [client, broker] && began.elapsed() < LONG {
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
                assert_eq!(since(), [client, broker], "{version:?}: {what}: frames of the client and of the broker");
            };
            // So that a channel is open, and the job's history declared.
            assert_eq!(outcome(&store, &claim("frames", 100)).await.expect("an answer"), SlotOutcome::Won);
            let won: Vec<_> = (0..10).map(|n| claim("frames", 200 + n)).collect();
            let before = frames.now();
            for won in &won {
                assert_eq!(outcome(&store, won).await.expect("an answer"), SlotOutcome::Won);
            }
            // A declare; and a record of its begin, all of which is in the head of a message.
            expect("10 wins", before, 10 * (1 + 2), 10 * (1 + 1)).await;
            let before = frames.now();
            for won in &won {
                let run = RunKey::scheduled(won.job.clone(), won.slot);
                let end = Finish::new(run, won.token, Ending::Done, instance("here"), won.slot.ms());
                store.finish(&end).await.expect("an answer");
            }
            expect("10 ends", before, 10 * 2, 10).await;
            let lost: Vec<_> = (0..10).map(|n| claim("frames", 300 + n)).collect();
            for lost in &lost {
                assert_eq!(outcome(&other, &again(lost)).await.expect("an answer"), SlotOutcome::Won);
            }
            let before = frames.now();
            for lost in &lost {
                assert_eq!(outcome(&store, lost).await.expect("an answer"), SlotOutcome::Taken);
            }
            // A channel is opened, except for the first; the broker closes it, and is told that this was understood.
            expect("10 losses", before, 10 * 3 - 1, 10 * 2 - 1).await;
        });
    }
}
