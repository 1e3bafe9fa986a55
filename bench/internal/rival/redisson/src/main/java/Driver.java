import java.io.BufferedReader;
import java.io.BufferedWriter;
import java.io.InputStreamReader;
import java.io.OutputStreamWriter;
import java.io.PrintWriter;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.Phaser;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;
import org.redisson.Redisson;
import org.redisson.api.RRateLimiter;
import org.redisson.api.RateType;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

/**
 * Drives Redisson's RRateLimiter for the Go benchmark: one command a line on
 * standard input, answered by one line (offer: several) on standard output. It
 * ends with its standard input. Times are nanoseconds of System.nanoTime.
 *
 * <pre>
 * open ADDR CLIENTS                   -> ok VERSION        connects, with the defaults of Redisson
 * limit NAME PERMITS MILLIS           -> ok                declares a limit
 * offer NAME SEED MILLIS RATE...      -> START END WHO ALLOWED (1 or 0), each call answered, then:
 *                                        ok CALLS DENIED FAILED
 *                                        open loop, one rate (calls/s) a caller: Poisson
 *                                        arrivals, or even ones if SEED is 0; callers take
 *                                        the clients in turn
 * </pre>
 *
 * A command that fails is answered by "error" and the reason.
 */
public final class Driver {
    private final List<RedissonClient> clients = new ArrayList<>();
    private final PrintWriter out = new PrintWriter(new BufferedWriter(new OutputStreamWriter(System.out, StandardCharsets.UTF_8)));

    public static void main(String[] args) throws Exception {
        Driver driver = new Driver();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            try {
                driver.answer(line.trim().split(" +"));
            } catch (Exception e) {
                driver.out.println("error " + String.valueOf(e).replaceAll("\\s+", " "));
            }
            driver.out.flush();
        }
        Runtime.getRuntime().halt(0); // nothing is worth a slow goodbye
    }

    private void answer(String[] words) throws Exception {
        switch (words[0]) {
            case "open" -> open(words[1], Integer.parseInt(words[2]));
            case "limit" -> limit(words[1], Long.parseLong(words[2]), Long.parseLong(words[3]));
            case "offer" -> offer(words[1], Long.parseLong(words[2]), Long.parseLong(words[3]),
                Arrays.stream(words).skip(4).mapToDouble(Double::parseDouble).toArray());
            default -> out.println("error unknown command");
        }
    }

    private void open(String address, int count) {
        for (int i = 0; i < count; i++) {
            Config config = new Config();
            config.useSingleServer().setAddress("redis://" + address);
            clients.add(Redisson.create(config));
        }
        out.println("ok " + Redisson.class.getPackage().getImplementationVersion());
    }

    private void limit(String name, long permits, long millis) {
        clients.get(0).getRateLimiter(name).trySetRate(RateType.OVERALL, permits, Duration.ofMillis(millis));
        out.println("ok");
    }

    /** The counts of one offer; calls are answered on Redisson's own threads. */
    private static final class Offer {
        final ConcurrentLinkedQueue<long[]> answered = new ConcurrentLinkedQueue<>();
        final AtomicLong denied = new AtomicLong();
        final AtomicLong failed = new AtomicLong();
        final Phaser open = new Phaser(1);

        void call(RRateLimiter limiter, int who) {
            open.register();
            long start = System.nanoTime();
            CompletionStage<Boolean> answer;
            try {
                answer = limiter.tryAcquireAsync();
            } catch (RuntimeException e) {
                failed.incrementAndGet();
                open.arriveAndDeregister();
                return;
            }
            answer.whenComplete((ok, e) -> {
                if (e != null) {
                    failed.incrementAndGet();
                } else {
                    answered.add(new long[] {start, System.nanoTime(), who, ok ? 1 : 0});
                    if (!ok) {
                        denied.incrementAndGet();
                    }
                }
                open.arriveAndDeregister();
            });
        }
    }

    private void offer(String name, long seed, long millis, double[] rates) throws Exception {
        Offer offer = new Offer();
        AtomicLong calls = new AtomicLong();
        List<Thread> running = new ArrayList<>();
        long begin = System.nanoTime();
        long end = begin + millis * 1_000_000;
        for (int i = 0; i < rates.length; i++) {
            RRateLimiter limiter = clients.get(i % clients.size()).getRateLimiter(name);
            Random random = new Random(seed * 1000 + i);
            double rate = rates[i];
            int who = i;
            double phase = (double) i / rates.length; // even arrivals of the clients do not coincide
            Thread thread = new Thread(() -> {
                double at = seed == 0 ? begin + (phase - 1) * 1e9 / rate : begin;
                for (;;) {
                    at += (seed == 0 ? 1 : -Math.log(1 - random.nextDouble())) * 1e9 / rate;
                    if (at >= end) {
                        return;
                    }
                    for (long wait = (long) at - System.nanoTime(); wait > 0; wait = (long) at - System.nanoTime()) {
                        LockSupport.parkNanos(wait);
                    }
                    calls.incrementAndGet();
                    offer.call(limiter, who);
                }
            }, "offer-" + i);
            thread.setDaemon(true);
            running.add(thread);
            thread.start();
        }
        for (Thread thread : running) {
            thread.join();
        }
        offer.open.arriveAndAwaitAdvance(); // every call has been answered
        for (long[] op : offer.answered) {
            out.println(op[0] + " " + op[1] + " " + op[2] + " " + op[3]);
        }
        out.printf("ok %d %d %d%n", calls.get(), offer.denied.get(), offer.failed.get());
    }
}
