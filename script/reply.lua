-- The end of an operation that has nothing to add to the reply.
return reply
