import { LosslessNumber } from 'lossless-json';
import * as z from 'zod/mini';
import { fieldError, int64 } from './json.ts';

/** The availability of an animal (docs/service.md 2.3). */
export const petStatuses = ['available', 'pending', 'sold'] as const;
export const PetStatus = z.enum(petStatuses, fieldError(`must be one of ${petStatuses.join(', ')}`));
export type PetStatus = z.infer<typeof PetStatus>;

const text = z.string(fieldError('must be a string'));

/** Checks that every surrogate in a text belongs to a pair, so that the text can be encoded as UTF-8. */
export const wellFormed = z.refine<string>((value) => !/\p{Surrogate}/u.test(value), {
  error: 'must be valid Unicode, without lone surrogates',
});

/** The body of a request that adds an animal (docs/service.md 2.2). Unknown fields are ignored (D14). */
export const NewPet = z.object(
  {
    name: text.check(wellFormed),
    categoryId: int64,
    status: z.optional(PetStatus),
  },
  fieldError('must be a JSON object'),
);
export type NewPet = z.infer<typeof NewPet>;

/**
 * An animal in the inventory (docs/service.md 2.1). Parsing keeps unknown fields. The name may have lone surrogates,
 * which a store can contain although no request can add them.
 */
export const Pet = z.looseObject(
  { id: int64, ...NewPet.shape, name: text },
  fieldError('must be a JSON object'),
);
export type Pet = z.infer<typeof Pet>;

/** The body of a list of animals (docs/service.md 2.4). */
export const Pets = z.array(Pet, fieldError('must be a JSON array'));

/**
 * An animal as any service may send it: with an id and a name. Values that the contract allows are converted as by
 * `Pet`; all others are kept as received, with every digit.
 */
export const ReceivedPet = z.looseObject(
  {
    ...Pet.shape,
    id: z.union(
      [Pet.shape.id, z.string(), z.bigint(), z.instanceof(LosslessNumber)],
      fieldError('must be a number or a string'),
    ),
    categoryId: orAnything(Pet.shape.categoryId),
    status: orAnything(Pet.shape.status),
  },
  fieldError('must be a JSON object'),
);
export type ReceivedPet = z.infer<typeof ReceivedPet>;

/** Whether an animal has one of these statuses, whatever its case, or may have one: its status is missing or not a text. */
export const mayHaveStatus = ({ status }: ReceivedPet, statuses: readonly PetStatus[]): boolean =>
  typeof status !== 'string' || (statuses as readonly string[]).includes(status.trim().toLowerCase());

export const ReceivedPets = z.array(ReceivedPet, fieldError('must be a JSON array'));

function orAnything(schema: z.ZodMiniType) {
  return z.optional(z.union([schema, z.unknown()]));
}

/** The body of every error response (docs/service.md 2.5). */
export const ErrorBody = z.looseObject({ code: z.string(), message: z.string(), status: z.int() });
export type ErrorBody = z.infer<typeof ErrorBody>;

/** A list of orders. `pets serve` sends an array (docs/service.md 2.6); another service may send any JSON. */
export const Orders = z.unknown();

type CompletePet = { id: bigint; name: string; categoryId: bigint; status: PetStatus };

/** Formats an animal as the service sends it. */
export const petJson = (pet: CompletePet): string => `{"id":${pet.id}${petJsonAfterId(pet)}`;

/** The part after the id in the text of an animal as the service sends it. */
export const petJsonAfterId = ({ name, categoryId, status }: Omit<CompletePet, 'id'>): string =>
  `,"name":${JSON.stringify(name)},"categoryId":${categoryId},"status":"${status}"}`;
