import { request } from 'undici';

const headers = { Authorization: `Bearer ${process.env.PETS_API_KEY}` };
const reply = await request(`${process.env.PETS_BASE_URL}/pets`, { headers });
process.stdout.write(await reply.body.text());
