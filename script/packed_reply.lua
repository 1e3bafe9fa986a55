--@needs MAGIC as_proposed at available burst calm ceil closed closed_until contended epoch format
--@needs granted head now offset partial renew reset retry_in revision share soonest start status stepped sub
--@needs tail tail_at target text touched used window
--@gives again next_us reply written
-- One-string algorithms, take and reserve, at the end: store the state if it must be, and make
-- `reply`: status, start, free before, granted, used, what settle needs, next us, retry us (-1
-- never), reset us, quarantine left us, epoch, target, share
local again = reset()
if renew then
  local done
  local own = format('@packed.touched.form', now) .. text()
  local slice = window / 16
  -- The time to live was set in this sixteenth of a window: it is long enough.
  local lives = as_proposed and closed == 0 and again <= window and now - now % slice == touched - touched % slice
  local life = not (lives and partial) and format('%d',
    ceil(math.min(math.max(again, closed, window), @MAX_FILL) / 1000)
      + math.max(sub(ARGV[2], @terms.head_life) + 0, ceil(window / 500)))
  if tail then
    done = redis.pcall('SETRANGE', KEYS[1], tail_at, tail)
  end
  if type(done) == 'table' then
    return {-2, done.err}
  elseif lives and calm and not stepped and contended == 0 and (partial or #own >= #head - @packed.touched.at) then
    done = redis.pcall('SETRANGE', KEYS[1], '@packed.touched.at', own)
  else
    local packed =
      format('@packed.magic..start.form', MAGIC, epoch, revision, target, window, burst, share, closed_until, offset,
        contended, start) .. own
    if partial then
      done = redis.pcall('SETRANGE', KEYS[1], '0', packed)
      if life then -- not before: a server that is full refuses the first write only
        redis.pcall('PEXPIRE', KEYS[1], life)
      end
    else
      done = redis.pcall('SET', KEYS[1], packed, 'PX', life)
    end
  end
  if type(done) == 'table' and done.err then
    return {-2, done.err}
  end
elseif stepped then
  -- The clock went back: what makes up for it is stored, under every algorithm in the same place.
  local done = redis.pcall('SETRANGE', KEYS[1], '@packed.offset.at', format('@packed.offset.form', offset))
  if type(done) == 'table' then
    return {-2, done.err}
  end
end

local next_us, written = soonest(), renew
if closed > 0 then
  next_us = closed
  if again < closed then
    again = closed
  end
end
local reply =
  {status, start, available, granted, used(), at, next_us, retry_in, again, closed, epoch, target, share}
