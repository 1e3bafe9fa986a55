-- One-string algorithms, take, at the end: whether the next call had better come here at once.
if groups == 0 and falls and share > target and closed == 0 and again > 0 then
  reply[@reply.next] = falls()
end
reply[@take.rare] = (not calm or booked or begun or contending) and 1 or 0
