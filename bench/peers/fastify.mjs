// Serves `GET /v1/pets` with fastify. The server checks the key and uses fastify's serializer.
import Fastify from 'fastify';
import { animals, authorization } from './animals.mjs';

const app = Fastify();
const pet = {
  type: 'object',
  properties: {
    id: { type: 'integer' },
    name: { type: 'string' },
    categoryId: { type: 'integer' },
    status: { type: 'string' },
  },
};
const schema = {
  querystring: {
    type: 'object',
    properties: { limit: { type: 'integer', minimum: 1, maximum: 100, default: 20 } },
  },
  response: { 200: { type: 'array', items: pet } },
};
app.get('/v1/pets', { schema }, (request, reply) => {
  if (request.headers.authorization !== authorization) return reply.code(401).send();
  return animals.slice(0, request.query.limit);
});
console.log(JSON.stringify({ url: `${await app.listen({ port: 0, host: '127.0.0.1' })}/v1`, key: 'bench' }));
