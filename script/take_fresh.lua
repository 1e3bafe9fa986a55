-- Take, the calm case: creates the state, if the caller's word is good for that.
if fresh == nil then
  local may = now <= till
  if may and lasting > 0 and not memory then
    --@include memory
    memory = kept and not done.err and kept or -1
  end
  fresh = may and (lasting <= 0 or memory >= lasting) and once .. pack('@once.form', now, n)
end
if fresh then
  call('PSETEX', key, life, fresh)
  answer = '\1'
end
