import { describe, expect, test } from 'vitest';
import type { NewPet } from '../../src/contract/schemas.ts';
import { REX } from '../helpers/raw-client.ts';
import { create, OTHER_KEY, start } from '../helpers/service.ts';

// `D10` is the number of a detail in docs/service.md.

describe('D10 a repeated creation', () => {
  const headers = { 'Idempotency-Key': '"a-key"' };

  test('returns the first animal, and is marked as a replay', async () => {
    const { store, call } = await start();
    const first = await call('/v1/pets', create(REX, headers));
    const again = await call(
      '/v1/pets',
      create(' {"categoryId":1, "status":"available","name":"Rex"}', headers),
    );
    expect([first.status, again.status]).toEqual([201, 201]);
    expect(again.headers.get('idempotency-replayed')).toBe('true');
    expect(first.headers.get('idempotency-replayed')).toBeNull();
    expect(await again.text()).toBe(await first.text());
    expect(await store.size()).toBe(1);
  });

  test('with another body or another status is 422, and adds nothing', async () => {
    const { store, call } = await start();
    await call('/v1/pets', create(REX, headers));
    // One body for each field, so that no field is forgotten in the fingerprint.
    const others: Record<keyof NewPet, object> = {
      name: { name: 'Max', categoryId: 1 },
      categoryId: { name: 'Rex', categoryId: 2 },
      status: { name: 'Rex', categoryId: 1, status: 'sold' },
    };
    for (const body of Object.values(others)) {
      const response = await call('/v1/pets', create(JSON.stringify(body), headers));
      expect(response.status).toBe(422);
      expect(await response.json()).toMatchObject({ code: 'idempotency_mismatch' });
    }
    expect(await store.size()).toBe(1);
  });

  test('with another API key is another creation', async () => {
    const { store, call } = await start();
    const mine = await call('/v1/pets', create(REX, headers));
    const theirs = await call('/v1/pets', create(REX, { ...headers, Authorization: `Bearer ${OTHER_KEY}` }));
    expect([mine.status, theirs.status]).toEqual([201, 201]);
    expect(theirs.headers.get('idempotency-replayed')).toBeNull();
    expect(await store.size()).toBe(2);
  });

  test('is announced in every response to a valid key, and in no other', async () => {
    const { call } = await start({ quota: { perMinute: 3, perDay: 9 } });
    for (const path of ['/v1/pets', '/v1/nothing', '/v1/pets?limit=0', '/v1/pets']) {
      expect((await call(path)).headers.get('idempotency-supported')).toBe('true');
    }
    const anonymous = await call('/v1/pets', { headers: { Authorization: 'Bearer wrong' } });
    expect(anonymous.headers.get('idempotency-supported')).toBeNull();
  });
});
