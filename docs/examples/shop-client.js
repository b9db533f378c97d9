// A client that adds an animal once, even if the service is busy (docs/testing.md).
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';

export async function addAnimal(animal) {
  const key = `"${randomUUID()}"`;
  for (let attempt = 1; ; attempt++) {
    const response = await fetch(`${process.env.PETS_BASE_URL}/pets`, {
      method: 'POST',
      headers: {
        Authorization: `Bearer ${process.env.PETS_API_KEY}`,
        'Content-Type': 'application/json',
        'Idempotency-Key': key,
      },
      body: JSON.stringify(animal),
    });
    if (response.ok) return response.json();
    if (![429, 503].includes(response.status) || attempt === 4) throw new Error(await response.text());
    await sleep(Number(response.headers.get('Retry-After') ?? 1) * 1_000);
  }
}
