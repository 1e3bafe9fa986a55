-- One-string algorithms: writes the state, to live for `life` ms; nil: as long as before.
local function store(life)
  local state = as_proposed and layout
    or format('@MAGIC%d %d %d %d %d %d', epoch, revision, target, window, burst, share)
  state = state
    .. (closed_until + offset + contended > 0 and format(':%d %d %d;', closed_until, offset, contended) or ';')
    .. pack('@packed.start..touched.form', start, returned, now) .. text()
  return redis.pcall('SET', KEYS[1], state, unpack(life and {'PX', format('%d', life)} or {'KEEPTTL'}))
end
