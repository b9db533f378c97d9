import * as z from 'zod/mini';
import { int64 } from './int64.ts';
import { says } from './issues.ts';

/** The availability of an animal (specification 2.3). */
export const petStatuses = ['available', 'pending', 'sold'] as const;
export const PetStatus = z.enum(petStatuses, says(`must be one of ${petStatuses.join(', ')}`));
export type PetStatus = z.infer<typeof PetStatus>;

/** The body of a creation (specification 2.2). Unknown fields are ignored (design D14). */
export const NewPet = z.object(
  {
    name: z.string(says('must be a string')),
    categoryId: int64,
    status: z.optional(PetStatus),
  },
  says('must be a JSON object'),
);
export type NewPet = z.infer<typeof NewPet>;

/** An animal of the inventory (specification 2.1). A reader keeps the fields that it does not know. */
export const Pet = z.looseObject({ id: int64, ...NewPet.shape }, says('must be a JSON object'));
export type Pet = z.infer<typeof Pet>;

/** The body of a list (specification 2.4). */
export const Pets = z.array(Pet, says('must be a JSON array'));

/** The body of every error (specification 2.5). */
export const ApiError = z.looseObject(
  {
    code: z.string(says('must be a string')),
    message: z.string(says('must be a string')),
    status: z.int(says('must be an integer')),
  },
  says('must be a JSON object'),
);
export type ApiError = z.infer<typeof ApiError>;

/** Orders: the specification shows no shape (2.6), so any JSON document is one. */
export const Orders = z.unknown();

/** An animal as the service writes it: one JSON text, digit for digit. */
export function petJson(pet: { id: bigint; name: string; categoryId: bigint; status: PetStatus }): string {
  return `{"id":${pet.id},"name":${JSON.stringify(pet.name)},"categoryId":${pet.categoryId},"status":"${pet.status}"}`;
}
