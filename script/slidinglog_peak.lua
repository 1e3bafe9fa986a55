--@needs WRAP queue sub total used
--@gives peak waits
-- Sliding log: `peak`, the most permits that a window holds which ends now or with what is booked,
-- and `waits`, the permits that are booked. What left the window of a booking when it was made is
-- in none that ends with it, and all that came since is.
local peak, waits = used, 0
for from = 1, #queue, @pending.bytes do
  waits = waits + sub(queue, @pending.permits[from])
  local held = (total - sub(queue, @pending.base[from])) % WRAP + waits
  if held > peak then
    peak = held
  end
end
