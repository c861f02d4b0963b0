import type { RecordForm } from '../../shared/model/attestation.ts';

/** For rooms that tell sidecars the form of records; new records get it too. */
export interface RecordFormDeps {
  readonly appending: {
    /** Now. It changes from 1 to 2 once. */
    readonly recordForm: () => RecordForm;
  };
}
