(SELECT array_to_string(ARRAY[(n - 1)::text, @answer x@], E'\x1f', '')
      FROM @claim@(p_jobs[n], @of slots n@, @of kinds n@, p_tokens[n], @of instances n@, @of idents n@, @of floors n@,
        @of previous n@, @of limits n@, @of leases n@, @of skips n@, @of max n@, @of retries n@, @of within n@,
        @of valid n@) x)
