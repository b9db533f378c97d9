export type ListedPet = { id: number; name: string; status: string };

/** All animals of a running service, read page by page. Rejects if an id is listed twice. */
export async function listAllPets({ url, key }: { url: string; key: string }): Promise<ListedPet[]> {
  const pets = new Map<number, ListedPet>();
  let path: string | undefined = '/v1/pets?limit=100';
  while (path !== undefined) {
    const response: Response = await fetch(new URL(path, url), {
      headers: { Authorization: `Bearer ${key}` },
    });
    for (const pet of (await response.json()) as ListedPet[]) {
      if (pets.has(pet.id)) throw new Error(`animal ${pet.id} was listed twice`);
      pets.set(pet.id, pet);
    }
    path = /^<([^>]+)>; rel="next"/.exec(response.headers.get('link') ?? '')?.[1];
  }
  return [...pets.values()];
}
