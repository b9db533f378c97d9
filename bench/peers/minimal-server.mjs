// A hand-written server for `GET /v1/pets` that does only the necessary work. It checks the API key, counts in both
// rate-limit windows, reads the query, joins the texts of the page, and sends the headers that `pets serve` sends.
import { createServer } from 'node:http';
import { count, selectPage } from './same-work.mjs';

function send(response, status, headers, body) {
  response.writeHead(status, {
    'Content-Type': 'application/json',
    'Content-Length': Buffer.byteLength(body),
    ...headers,
  });
  response.end(body);
}

let requests = 0;

createServer((request, response) => {
  const windows = count(request.headers.authorization);
  if (windows === undefined) return send(response, 401, {}, '{}');
  const mark = request.url.indexOf('?');
  const query = new URLSearchParams(mark === -1 ? '' : request.url.slice(mark + 1));
  const limit = Number(query.get('limit') ?? 20);
  const after = Number(query.get('cursor') ?? 0);
  if (!(limit >= 1 && limit <= 100) || !(after >= 0)) return send(response, 400, {}, '{}');
  const page = selectPage(limit, after, request.headers['x-request-id'] ?? `bench-${++requests}`);
  send(response, 200, { ...windows, ...page.headers }, page.text);
}).listen(0, '127.0.0.1', function listening() {
  console.log(JSON.stringify({ url: `http://127.0.0.1:${this.address().port}/v1`, key: 'bench' }));
});
