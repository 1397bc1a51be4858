// The server runs one script at a time, so each script is atomic.
//
// Keys: `tasks` and `leases` have a field per task; `order:<task>` has the task's ids by sequence; `headers:<task>` and
// `payloads:<task>` have a field per checkpoint. `log:<task>` has the headers of the log's records by sequence, `bodies:<task>`
// a field per record, and `events:<task>` the header of each event by its id.
const NAMES = `
  local tasks, leases, order, headers, payloads, log, bodies, events = unpack(KEYS)
  local task = ARGV[1]
  local function get(key, field) return redis.call('HGET', key, field) or '' end
  local function now()
    local time = redis.call('TIME')
    return string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000))
  end
`;

/**
 * Returns the task's text, its lease's text, the time, the count, the newest sequence, the headers of the first ARGV[2]
 * ids, and the headers of the events with the remaining ids.
 */
export const LOOK = `${NAMES}
  local newest = redis.call('ZRANGE', order, -1, -1, 'WITHSCORES')
  local seen = { get(tasks, task), get(leases, task), now(), tostring(redis.call('ZCARD', order)), newest[2] or '0' }
  for i = 3, #ARGV do table.insert(seen, get(i < 3 + tonumber(ARGV[2]) and headers or events, ARGV[i])) end
  return seen
`;

/**
 * Returns the count, the task's text and its last record's header, then the id, sequence and header of the newest
 * checkpoint (0) or of all checkpoints (-1).
 */
export const LIST = `${NAMES}
  local found = redis.call('ZRANGE', order, 0, ARGV[2], 'REV', 'WITHSCORES')
  local last = redis.call('ZRANGE', log, -1, -1)
  local list = { tostring(redis.call('ZCARD', order)), get(tasks, task), last[1] or '' }
  for i = 1, #found, 2 do
    table.insert(list, found[i])
    table.insert(list, found[i + 1])
    table.insert(list, get(headers, found[i]))
  end
  return list
`;

/**
 * Returns the first items between two sequences, at most ARGV[5], in either order. A record is returned as its
 * sequence, header and body, a checkpoint as its sequence, header and 'checkpoint'.
 */
export const LOG = `${NAMES}
  local after, before, direction, limit, hasBodies = unpack(ARGV, 2, 6)
  local function range(key)
    if direction == 'oldest' then
      return redis.call('ZRANGEBYSCORE', key, '(' .. after, '(' .. before, 'WITHSCORES', 'LIMIT', 0, limit)
    end
    return redis.call('ZREVRANGEBYSCORE', key, '(' .. before, '(' .. after, 'WITHSCORES', 'LIMIT', 0, limit)
  end
  local records, checkpoints = range(log), range(order)
  local list, r, c = {}, 1, 1
  while #list < 3 * tonumber(limit) and (records[r] or checkpoints[c]) do
    local record, checkpoint = tonumber(records[r + 1]), tonumber(checkpoints[c + 1])
    local isRecord = record and (not checkpoint or (record < checkpoint) == (direction == 'oldest'))
    if isRecord then
      table.insert(list, records[r + 1])
      table.insert(list, records[r])
      table.insert(list, hasBodies == 'true' and get(bodies, records[r + 1]) or '')
      r = r + 2
    else
      table.insert(list, checkpoints[c + 1])
      table.insert(list, get(headers, checkpoints[c]))
      table.insert(list, 'checkpoint')
      c = c + 2
    end
  end
  return list
`;

/** Returns the ids of all tasks. */
export const TASKS = `${NAMES}
  return redis.call('HKEYS', tasks)
`;

/** Returns a header and its payload. */
export const GET = `${NAMES}
  return { get(headers, ARGV[2]), get(payloads, ARGV[2]) }
`;

/** Returns the time, then each task with its lease. */
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
 * Stores a checkpoint or only its header, and removes other checkpoints. Then it stores, replaces, empties and removes
 * records, each given as a sequence, a header ('' to remove the record), a body ('' for none) and an event's id. It
 * does nothing if the task has changed, or if the lease has changed or ended. Without a new text for the task, it
 * removes the whole task.
 */
export const COMMIT = `${NAMES}
  local before, after, lease, leaseEnd, id, sequence, header, payload = unpack(ARGV, 2, 9)
  if get(tasks, task) ~= before then return { 'outdated' } end
  if leaseEnd ~= '' and (get(leases, task) ~= lease or tonumber(now()) >= tonumber(leaseEnd)) then
    return { 'outdated' }
  end
  if after == '' then
    redis.call('DEL', order, headers, payloads, log, bodies, events)
    redis.call('HDEL', tasks, task)
    return { 'done' }
  end
  redis.call('HSET', tasks, task, after)
  if id ~= '' then
    redis.call('ZADD', order, sequence, id)
    redis.call('HSET', headers, id, header)
    if payload ~= '' then redis.call('HSET', payloads, id, payload) end
  end
  local removed = 10 + tonumber(ARGV[10])
  for i = 11, removed do
    redis.call('ZREM', order, ARGV[i])
    redis.call('HDEL', headers, ARGV[i])
    redis.call('HDEL', payloads, ARGV[i])
  end
  for i = removed + 1, #ARGV, 4 do
    local number, record, body, event = unpack(ARGV, i, i + 3)
    redis.call('ZREMRANGEBYSCORE', log, number, number)
    redis.call('HDEL', bodies, number)
    if record ~= '' then redis.call('ZADD', log, number, record) end
    if body ~= '' then redis.call('HSET', bodies, number, body) end
    if event ~= '' then redis.call('HSET', events, event, record) end
  end
  return { 'done' }
`;
