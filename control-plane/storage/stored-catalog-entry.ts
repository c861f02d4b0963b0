import { must } from '../../shared/errors/assert.ts';
import { parseCatalogEntry } from '../../shared/wire/api/catalog.ts';

/**
 * A catalog entry as it lies in a row. They were rendered before they were written, so one that cannot be
 * read is our fault.
 */
export const readStoredEntry = (entry: unknown) =>
  must(parseCatalogEntry(entry), 'a stored catalog entry can be read');
