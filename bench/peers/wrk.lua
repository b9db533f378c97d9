-- Use: wrk … -s wrk.lua <url> -- <method>. The last line of the output has the figures as JSON.
-- After the method, `keys <prefix>` sends a new idempotency key with each request, or `paths <file>` requests the
-- paths in a file in turn.
function init(args)
  wrk.headers["Authorization"] = "Bearer " .. os.getenv("PETS_API_KEY")
  wrk.method = args[1]
  if wrk.method == "POST" then
    wrk.headers["Content-Type"] = "application/json"
    wrk.body = '{"name":"Rex","categoryId":1}'
  end
  local count = 0
  -- wrk calls request() for each request. Without this function, wrk repeats the same bytes.
  if args[2] == "keys" then
    function request()
      count = count + 1
      wrk.headers["Idempotency-Key"] = '"' .. args[3] .. count .. '"'
      return wrk.format()
    end
  elseif args[2] == "paths" then
    local requests = {}
    for path in io.lines(args[3]) do requests[#requests + 1] = wrk.format(nil, path) end
    function request()
      count = count % #requests + 1
      return requests[count]
    end
  end
end

function done(summary)
  local errors = summary.errors
  io.write(string.format(
    '{"requests":%d,"microseconds":%d,"failed":%d}\n',
    summary.requests, summary.duration, errors.connect + errors.read + errors.write + errors.status
  ))
end
