-- Take, after the permits were entered: what the caller cannot know if all is as it proposed and nobody contends.
if not as_proposed or contending or closed > 0 then
  reply[10], reply[11], reply[12], reply[13] = closed, epoch, target, share
end
