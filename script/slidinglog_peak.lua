--@needs WRAP now peak queue sub total used waits window
--@sets peak waits
-- Sliding log: `peak`, the most permits that a window holds which now is in and which ends now or
-- with what is booked; `waits`, the permits that are booked. The share must not fall below either.
-- What left the window of a booking when it was made is in none that ends with it, and all that
-- came since is.
peak, waits = used, 0
for from = 1, #queue, @pending.bytes do
  waits = waits + sub(queue, @pending.permits[from])
  if sub(queue, @pending.opened[from]) - now < window then
    local gone = sub(queue, @pending.base[from]) + 0
    local held = (gone < 0 and used or (total - gone) % WRAP) + waits
    if held > peak then
      peak = held
    end
  end
end
