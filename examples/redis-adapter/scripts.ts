// The server runs one script at a time, so each of these is one moment.
//
// Keys: `tasks` and `leases` have a field per task; `order:<task>` has the task's ids by sequence; `headers:<task>` and
// `payloads:<task>` have a field per checkpoint.
const NAMES = `
  local tasks, leases, order, headers, payloads = unpack(KEYS)
  local task = ARGV[1]
  local function get(key, field) return redis.call('HGET', key, field) or '' end
  local function now()
    local time = redis.call('TIME')
    return string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000))
  end
`;

/** Gives the task's text, its lease's, the time, the count, the newest sequence, and the headers of the ids. */
export const LOOK = `${NAMES}
  local newest = redis.call('ZRANGE', order, -1, -1, 'WITHSCORES')
  local seen = { get(tasks, task), get(leases, task), now(), tostring(redis.call('ZCARD', order)), newest[2] or '0' }
  for i = 2, #ARGV do table.insert(seen, get(headers, ARGV[i])) end
  return seen
`;

/** Gives the count, then id, sequence and header of the newest or of all (-1). */
export const LIST = `${NAMES}
  local found = redis.call('ZRANGE', order, 0, ARGV[2], 'REV', 'WITHSCORES')
  local list = { tostring(redis.call('ZCARD', order)) }
  for i = 1, #found, 2 do
    table.insert(list, found[i])
    table.insert(list, found[i + 1])
    table.insert(list, get(headers, found[i]))
  end
  return list
`;

/** Gives the ids of all tasks. */
export const TASKS = `${NAMES}
  return redis.call('HKEYS', tasks)
`;

/** Gives a header and its payload. */
export const GET = `${NAMES}
  return { get(headers, ARGV[2]), get(payloads, ARGV[2]) }
`;

/** Gives the time, then each task with its lease. */
export const LEASES = `${NAMES}
  local list = redis.call('HGETALL', leases)
  table.insert(list, 1, now())
  return list
`;

/** Replaces a lease, unless it has changed. */
export const LEASE = `${NAMES}
  if get(leases, task) ~= ARGV[2] then return { 'outdated' } end
  redis.call('HSET', leases, task, ARGV[3])
  return { 'done' }
`;

/**
 * Stores a checkpoint, or its header alone, and removes others. It does nothing if the task has changed, or the lease has
 * changed or ended. Without a new text of the task, it removes the whole task.
 */
export const COMMIT = `${NAMES}
  local before, after, lease, leaseEnd, id, sequence, header, payload = unpack(ARGV, 2, 9)
  if get(tasks, task) ~= before then return { 'outdated' } end
  if leaseEnd ~= '' and (get(leases, task) ~= lease or tonumber(now()) >= tonumber(leaseEnd)) then
    return { 'outdated' }
  end
  if after == '' then
    redis.call('DEL', order, headers, payloads)
    redis.call('HDEL', tasks, task)
    return { 'done' }
  end
  redis.call('HSET', tasks, task, after)
  if id ~= '' then
    redis.call('ZADD', order, sequence, id)
    redis.call('HSET', headers, id, header)
    if payload ~= '' then redis.call('HSET', payloads, id, payload) end
  end
  for i = 10, #ARGV do
    redis.call('ZREM', order, ARGV[i])
    redis.call('HDEL', headers, ARGV[i])
    redis.call('HDEL', payloads, ARGV[i])
  end
  return { 'done' }
`;
