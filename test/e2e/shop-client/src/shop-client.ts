import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';

const MAX_ATTEMPTS = 4;

export type Animal = { id: number; name: string; categoryId: number };

/** Adds an animal once. Repeats the request if the service is busy, after the time that it asks for. */
export async function addAnimal(animal: Omit<Animal, 'id'>): Promise<Animal> {
  const key = `"${randomUUID()}"`;
  for (let attempt = 1; ; attempt++) {
    const response = await fetch(`${process.env['PETS_BASE_URL']}/pets`, {
      method: 'POST',
      headers: {
        Authorization: `Bearer ${process.env['PETS_API_KEY']}`,
        'Content-Type': 'application/json',
        'Idempotency-Key': key,
      },
      body: JSON.stringify(animal),
    });
    if (response.ok) return (await response.json()) as Animal;
    const isBusy = response.status === 429 || response.status === 503;
    if (!isBusy || attempt === MAX_ATTEMPTS) throw new Error(await response.text());
    await sleep(Number(response.headers.get('Retry-After') ?? 1) * 1_000);
  }
}
