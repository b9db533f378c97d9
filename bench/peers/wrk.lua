-- wrk … -s wrk.lua <url> -- <method> [what idempotency keys begin with]: its last line has the figures, as JSON.
function init(args)
  wrk.headers["Authorization"] = "Bearer " .. os.getenv("PETS_API_KEY")
  wrk.method = args[1]
  if wrk.method == "POST" then
    wrk.headers["Content-Type"] = "application/json"
    wrk.body = '{"name":"Rex","categoryId":1}'
  end
  local prefix = args[2]
  if not prefix then return end
  local count = 0
  -- wrk asks it for each request; without it, it sends the same bytes again and again.
  function request()
    count = count + 1
    wrk.headers["Idempotency-Key"] = '"' .. prefix .. count .. '"'
    return wrk.format()
  end
end

function done(summary)
  local errors = summary.errors
  io.write(string.format(
    '{"requests":%d,"microseconds":%d,"failed":%d}\n',
    summary.requests, summary.duration, errors.connect + errors.read + errors.write + errors.status
  ))
end
