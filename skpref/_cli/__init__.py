"""The parts of the command ``skpref``: reading files, the job, its report, the progress bar."""
