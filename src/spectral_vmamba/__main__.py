from spectral_vmamba.cli import main

raise SystemExit(main())
