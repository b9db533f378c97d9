/** For Windows PowerShell 5.1 and PowerShell 7. Where nothing is offered, PowerShell offers files by itself. */
export const powershell = `# Completion of pets for PowerShell. To have it in every new shell, add this line to the file $PROFILE:
#   pets completion powershell | Out-String | Invoke-Expression

Register-ArgumentCompleter -Native -CommandName pets -ScriptBlock {
    param($wordToComplete, $commandAst, $cursorPosition)
    $words = @($commandAst.CommandElements | Select-Object -Skip 1 |
        Where-Object { $_.Extent.EndOffset -lt $cursorPosition } |
        ForEach-Object { if ($_ -is [System.Management.Automation.Language.StringConstantExpressionAst]) { $_.Value } else { "$_" } })
    # Older ones pass an empty word on only in quotes of its own.
    $words += if ($wordToComplete) { $wordToComplete } else { '""' }
    pets completion powershell '--' @words 2> $null | Where-Object { -not $_.StartsWith(':') } | ForEach-Object {
        $value, $description = $_ -split "\`t", 2
        if (-not $description) { $description = $value }
        [System.Management.Automation.CompletionResult]::new($value, $value, 'ParameterValue', $description)
    }
}
`;
