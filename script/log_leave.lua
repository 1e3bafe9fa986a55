--@needs before count entries floor newest now sub window
--@gives leave
-- Logs: when so many permits have left.
local function leave(gone)
  local low, high = 1, #entries / @entry.bytes
  if high < count - 1 and (high == 0 or (sub(entries, @entry.total[..#entries]) - before) % @WRAP < gone) then
    --@include log_rest
    high = count - 1
  end
  high = high + 1 -- the newest, if it comes to that
  while low < high do
    local middle = floor((low + high) / 2)
    if (sub(entries, @entry.total[..middle * @entry.bytes]) - before) % @WRAP >= gone then
      high = middle
    else
      low = middle + 1
    end
  end
  return (low == count and newest or sub(entries, @entry.date[..low * @entry.bytes])) + window - now
end
