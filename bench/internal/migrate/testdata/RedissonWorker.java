import java.time.Duration;

import org.redisson.api.RRateLimiter;
import org.redisson.api.RateType;
import org.redisson.api.RedissonClient;

class RedissonWorker {
    static int work(RedissonClient redisson, Duration patience, Runnable pull) {
        RRateLimiter pulls = redisson.getRateLimiter("pulls");
        pulls.trySetRate(RateType.OVERALL, 100, Duration.ofSeconds(1));
        int done = 0;
        while (pulls.tryAcquire(1, patience)) {
            pull.run();
            done++;
        }
        return done;
    }
}
