import type { PetStatus } from '../../contract/schemas.ts';

/** The numbers by which the database stores statuses, ascending from 0 without gaps. */
export const STATUS_NUMBERS: Readonly<Record<PetStatus, number>> = { available: 0, pending: 1, sold: 2 };

/** The statuses by their numbers. */
export const STATUSES = Object.keys(STATUS_NUMBERS) as readonly PetStatus[];
