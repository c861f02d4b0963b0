import type { Command } from 'commander';
import { addApplyCommands } from '../apply/apply.ts';
import type { CommandHost } from '../base/host.ts';
import { addDoctorCommand } from '../doctor/doctor.ts';
import { addEvidenceCommands } from '../evidence/evidence.ts';
import { addApprovalCommands } from './approvals.ts';
import { addAttestationCommands } from './attestations.ts';
import { addAuditCommands } from './audit.ts';
import { addChannelCommands } from './channels.ts';
import { addCompletionCommand } from './completion.ts';
import { addGateCommands } from './gates.ts';
import { addIssuerCommands } from './issuers.ts';
import { addKeyCommands } from './keys.ts';
import { addLoginCommands } from './login.ts';
import { addMcpPinCommands } from './mcp-pins.ts';
import { addPassportCommands } from './passports.ts';
import { addWalletCommands } from './wallets.ts';
import { addWebhooksCommand } from './webhooks.ts';

/** Adds the commands of administrators: they call the service, and run on any machine. */
export function addAdminCommands(program: Command, host: CommandHost): void {
  addLoginCommands(program, host);
  addGateCommands(program, host);
  addPassportCommands(program, host);
  addIssuerCommands(program, host);
  addKeyCommands(program, host);
  addApprovalCommands(program, host);
  addMcpPinCommands(program, host);
  addChannelCommands(program, host);
  addWalletCommands(program, host);
  addWebhooksCommand(program, host);
  addAttestationCommands(program, host);
  addEvidenceCommands(program, host);
  addAuditCommands(program, host);
  addApplyCommands(program, host);
  addDoctorCommand(program, host);
  addCompletionCommand(program, host);
}
