-- One-string algorithms: the state as it is to be stored, and whether its columns stay where they
-- are.
local state = as_proposed and layout
  or format('@MAGIC%d %d %d %d %d %d', epoch, revision, target, window, burst, share)
state = state
  .. (closed_until + offset + contended > 0 and format(':%d %d %d;', closed_until, offset, contended) or ';')
local same = head and #state == base
state = state .. pack('@packed.start..touched.form', start, returned, now) .. text(same)
