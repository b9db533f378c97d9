// Does with fastify what `minimal-server.mjs` does by hand, and the rest of the work of `pets serve` as fastify offers it: limits,
// timeouts, and one form of error for everything that goes wrong.
import Fastify from 'fastify';
import { count, selectPage } from './same-work.mjs';

let requests = 0;
const app = Fastify({
  bodyLimit: 65_536,
  connectionTimeout: 60_000,
  requestTimeout: 30_000,
  requestIdHeader: 'x-request-id',
  genReqId: () => `bench-${++requests}`,
});

app.setErrorHandler((error, _request, reply) => {
  const status = error.statusCode ?? 500;
  reply.code(status).send({ code: error.code, message: error.message, status });
});
app.setNotFoundHandler((_request, reply) => {
  reply.code(404).send({ code: 'not_found', message: 'There is nothing at this path', status: 404 });
});
app.addHook('onRequest', async (request, reply) => {
  const windows = count(request.headers.authorization);
  if (windows === undefined)
    throw Object.assign(new Error('unknown key'), { statusCode: 401, code: 'unauthorized' });
  reply.headers(windows);
});

const querystring = {
  type: 'object',
  properties: {
    limit: { type: 'integer', minimum: 1, maximum: 100, default: 20 },
    cursor: { type: 'integer', minimum: 0, default: 0 },
  },
};
app.get('/v1/pets', { schema: { querystring } }, async (request, reply) => {
  const { headers, text } = selectPage(request.query.limit, request.query.cursor, request.id);
  reply.headers(headers).type('application/json');
  return text;
});
console.log(JSON.stringify({ url: `${await app.listen({ port: 0, host: '127.0.0.1' })}/v1`, key: 'bench' }));
