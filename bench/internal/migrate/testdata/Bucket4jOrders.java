import java.time.Duration;

import io.github.bucket4j.BucketConfiguration;
import io.github.bucket4j.ConsumptionProbe;
import io.github.bucket4j.distributed.proxy.ProxyManager;

class Bucket4jOrders {
    static final BucketConfiguration TEN_A_MINUTE = BucketConfiguration.builder()
        .addLimit(limit -> limit.capacity(10).refillGreedy(10, Duration.ofMinutes(1)))
        .build();

    static Duration retryAfter(ProxyManager<String> users, String user, Runnable order) {
        ConsumptionProbe probe = users.builder()
            .build(user, () -> TEN_A_MINUTE)
            .tryConsumeAndReturnRemaining(1);
        if (!probe.isConsumed()) {
            return Duration.ofNanos(probe.getNanosToWaitForRefill());
        }
        order.run();
        return Duration.ZERO;
    }
}
