// Serves `GET /v1/pets` with hono. The server checks the key and uses JSON.stringify.
import { serve } from '@hono/node-server';
import { Hono } from 'hono';
import { animals, authorization } from './animals.mjs';

const app = new Hono();
app.get('/v1/pets', (context) => {
  if (context.req.header('Authorization') !== authorization) return context.body(null, 401);
  return context.json(animals.slice(0, Number(context.req.query('limit') ?? 20)));
});
serve({ fetch: app.fetch, port: 0, hostname: '127.0.0.1' }, ({ port }) => {
  console.log(JSON.stringify({ url: `http://127.0.0.1:${port}/v1`, key: 'bench' }));
});
